{{- define "selvage.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "selvage" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-selvage" .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "selvage.account" -}}
{{- .Values.serviceAccount.name | default (include "selvage.fullname" .) -}}
{{- end }}

{{- /* Of the pods; a DaemonSet's selector never changes. */}}
{{- define "selvage.selector" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{- /* Of an object. The argument: the root, and what comes on top, later ones first. */}}
{{- define "selvage.labels" -}}
{{- $root := first . -}}
{{- $labels := dict
    "app.kubernetes.io/name" "selvage"
    "app.kubernetes.io/instance" $root.Release.Name
    "app.kubernetes.io/version" $root.Chart.AppVersion
    "app.kubernetes.io/managed-by" $root.Release.Service
    "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- toYaml (mergeOverwrite $labels (deepCopy $root.Values.commonLabels) (concat (list dict) (rest .) | last | deepCopy)) -}}
{{- end }}

{{- define "selvage.metadata" -}}
{{- $root := first . -}}
name: {{ include "selvage.fullname" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "selvage.labels" (list $root) | nindent 2 }}
{{- end }}

{{- /* A role's subjects. */}}
{{- define "selvage.subjects" -}}
- kind: ServiceAccount
  name: {{ include "selvage.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "selvage.image" -}}
{{- with .Values.global.imageRegistry | default .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- define "selvage.pullSecrets" -}}
{{- range concat .Values.global.imagePullSecrets .Values.image.pullSecrets }}
- name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{- /* Values and lists in JSON are TOML as well; tables come after them. The argument: path, table. */}}
{{- define "selvage.toml" -}}
{{- $path := first . }}
{{- range $key, $value := last . }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- range $key, $value := last . }}
{{- if kindIs "map" $value }}
{{- $here := append $path $key }}

[{{ join "." $here }}]
{{- include "selvage.toml" (list $here $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "selvage.platform" -}}
{{- $all := .Files.Get "files/platforms.yaml" | fromYaml -}}
{{- toYaml (merge (dict) (get $all .Values.platform | default dict) $all.all) -}}
{{- end }}

{{- define "selvage.settings" -}}
{{- if kindIs "string" .Values.settings -}}
{{- .Values.settings -}}
{{- else -}}
{{- if dig "cluster" "prefix" "" .Values.settings }}
{{- fail "say `prefix`, not `settings.cluster.prefix`: the admission policy follows it" }}
{{- end -}}
{{- $platform := include "selvage.platform" . | fromYaml -}}
{{- include "selvage.toml" (list list (mergeOverwrite $platform.settings .Values.settings)) | trim -}}
{{- end -}}
{{- end }}

{{- define "selvage.affinity" -}}
{{- $platform := include "selvage.platform" . | fromYaml -}}
{{- $terms := .Values.nodeSelectorTerms | default $platform.nodeSelectorTerms -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- toYaml (mergeOverwrite (dict "nodeAffinity" $required) .Values.affinity) -}}
{{- end }}

{{- /* Secrets of the agent: volume, Secret, where it is mounted, variables of files in it. */}}
{{- define "selvage.secrets" -}}
{{- with .Values.tls.secretName }}
- {name: tls, secret: {{ . }}, path: /etc/selvage-tls, env: {SELVAGE_SERVE_TLS_CERT: tls.crt, SELVAGE_SERVE_TLS_KEY: tls.key}}
{{- end }}
{{- with .Values.tls.clientCaSecretName }}
- {name: client-ca, secret: {{ . }}, path: /etc/selvage-client-ca, env: {SELVAGE_SERVE_TLS_CLIENT_CA: ca.crt}}
{{- end }}
{{- with .Values.tls.tokenSecretName }}
- {name: token, secret: {{ . }}, path: /etc/selvage-token, env: {SELVAGE_SERVE_TOKEN_FILE: token}}
{{- end }}
{{- end }}

{{- /* Where the agent listens: SELVAGE_LISTEN of `extraEnv`, else the settings' `agent.listen`, else `port`. */}}
{{- define "selvage.listen" -}}
{{- $listen := kindIs "string" .Values.settings | ternary
    (regexFind "(?m)^[ \t]*listen[ \t]*=[ \t]*[\"'][^\"']*" (toString .Values.settings) | regexFind "[^\"']*$")
    (kindIs "map" .Values.settings | ternary .Values.settings dict | dig "agent" "listen" "") -}}
{{- range .Values.extraEnv }}{{ if eq .name "SELVAGE_LISTEN" }}{{ $listen = .value }}{{ end }}{{ end -}}
{{- $listen | default (printf ":%d" (int .Values.port)) -}}
{{- end }}

{{- /* The kubelet asks on loopback, which a pod on the host's network shares with it; by the node's address, which is
     the default, where the agent listens there alone. */}}
{{- define "selvage.probeHost" -}}
{{- $listen := include "selvage.listen" . -}}
{{- $host := regexReplaceAll ":[0-9]*$" $listen "" -}}
{{- if ne $listen (printf "%s:%d" $host (int .Values.port)) -}}
{{- fail (printf "the agent listens at %q (settings.agent.listen or SELVAGE_LISTEN), and probes and monitors ask `port`, %d: say the same in both" $listen (int .Values.port)) -}}
{{- else if has $host (list "" "0.0.0.0" "[::]" "localhost") }}127.0.0.1
{{- else if eq $host "[::1]" }}::1
{{- else if hasPrefix "127." $host }}{{ $host }}
{{- else if not (contains "$(" $host) -}}
{{- fail (printf "no two nodes have the address of %q (settings.agent.listen or SELVAGE_LISTEN): take loopback, or each node's own address by `extraEnv` (docs/install.md, \"What runs, with which rights\")" $listen) -}}
{{- end -}}
{{- end }}

{{- define "selvage.probe" -}}
httpGet: { {{- with include "selvage.probeHost" (first .) }}host: {{ quote . }}, {{ end }}path: {{ last . }}, port: metrics{{ if (first .).Values.tls.secretName }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- /* Of what prometheus-operator looks for. The argument: the root, labels of the value's own. */}}
{{- define "selvage.monitoringLabels" -}}
{{- $root := first . -}}
{{- $release := dict -}}
{{- with $root.Values.kubePrometheusStack }}{{ $release = dict "release" . }}{{ end -}}
{{- include "selvage.labels" (list $root (mergeOverwrite $release (last .))) -}}
{{- end }}

{{- /* A monitor's endpoint. The argument: the root, the monitor's values, labels of the target to drop. */}}
{{- define "selvage.endpoint" -}}
{{- $root := first . -}}
{{- $values := index . 1 -}}
{{- $tls := $root.Values.tls -}}
- port: metrics
  interval: {{ $values.interval }}
  {{- with $values.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- if or $values.scheme $tls.secretName }}
  scheme: {{ $values.scheme | default "https" }}
  {{- end }}
  {{- if $values.tlsConfig }}
  tlsConfig:
    {{- toYaml $values.tlsConfig | nindent 4 }}
  {{- else if $tls.secretName }}
  tlsConfig:
    serverName: {{ $tls.serverName | default (printf "%s.%s.svc" (include "selvage.fullname" $root) $root.Release.Namespace) }}
    ca:
      secret: {name: {{ $tls.secretName }}, key: ca.crt}
  {{- end }}
  {{- if $values.authorization }}
  authorization:
    {{- toYaml $values.authorization | nindent 4 }}
  {{- else if $tls.tokenSecretName }}
  authorization:
    credentials: {name: {{ $tls.tokenSecretName }}, key: token}
  {{- end }}
  # Label job of what NCCL tells is the training job, not the scrape's.
  honorLabels: true
  relabelings:
    # The node, not the pod, is what outlives a restart; `namespace` and `pod` are the jobs' then.
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: node
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: instance
    - {action: labeldrop, regex: {{ last . }}}
    {{- with $values.relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Kinds of volumes that the pods have; the token is a projected one. */}}
{{- define "selvage.volumeKinds" -}}
{{- $kinds := list "configMap" "hostPath" "projected" -}}
{{- if include "selvage.secrets" . | trim }}{{ $kinds = append $kinds "secret" }}{{ end -}}
{{- range .Values.extraVolumes }}{{ $kinds = concat $kinds (omit . "name" | keys) }}{{ end -}}
{{- $kinds | uniq | join ", " -}}
{{- end }}

{{- /* Which nodes, for pods. */}}
{{- define "selvage.placement" -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
affinity:
  {{- include "selvage.affinity" . | nindent 2 }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
