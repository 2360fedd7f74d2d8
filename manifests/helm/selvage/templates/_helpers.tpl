{{- define "selvage.labels" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/component: agent
{{- end }}

{{- define "selvage.settings" -}}
{{- .Values.settings | default (.Files.Get (printf "files/%s.toml" .Values.platform)) -}}
{{- end }}

{{- define "selvage.nodeSelectorTerms" -}}
{{- $platforms := .Files.Get "files/platforms.yaml" | fromYaml -}}
{{- .Values.nodeSelectorTerms | default (get $platforms .Values.platform) | toYaml -}}
{{- end }}
