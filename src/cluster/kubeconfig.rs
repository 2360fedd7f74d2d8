//! A kubeconfig file, as kubectl reads it.
//!
//! [`Kubeconfig::read_from`] does the same, by code that a YAML parser makes for each type of it: a
//! fiftieth of the image. Here the parser makes values, and JSON's makes the types.

use kube::config::Kubeconfig;
use serde_json::Value;
use std::path::Path;

/// What names a file, relative to the kubeconfig's directory: client-go's `ResolveLocalPaths`.
const FILES: [(&str, &str, &[&str]); 2] = [
    ("clusters", "cluster", &["certificate-authority"]),
    (
        "users",
        "user",
        &["client-certificate", "client-key", "tokenFile"],
    ),
];

/// Reads one.
///
/// # Errors
/// Why it cannot be read or is none.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of settings, not the kernel's"
)]
pub(super) fn read(path: &Path) -> Result<Kubeconfig, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let mut value: Value = serde_saphyr::from_str(&text).map_err(|error| told(&error))?;
    if value.is_null() {
        return Ok(Kubeconfig::default());
    }
    if let Some(dir) = path.parent() {
        resolve(&mut value, dir);
    }
    serde_json::from_value(value).map_err(|error| told(&error))
}

fn resolve(value: &mut Value, dir: &Path) {
    for (list, kind, keys) in FILES {
        let named = value.get_mut(list).and_then(Value::as_array_mut);
        for object in named.into_iter().flatten() {
            let Some(object) = object.get_mut(kind) else {
                continue;
            };
            for key in keys {
                join(object.get_mut(key), dir);
            }
            // A bare name is looked for in PATH.
            let command = object
                .get_mut("exec")
                .and_then(|exec| exec.get_mut("command"));
            if let Some(command) = command
                && command.as_str().is_some_and(|text| text.contains('/'))
            {
                join(Some(command), dir);
            }
        }
    }
}

fn join(value: Option<&mut Value>, dir: &Path) {
    if let Some(Value::String(file)) = value
        && !file.is_empty()
        && let Some(joined) = dir.join(&file).to_str()
    {
        *file = joined.to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Kubeconfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        let there = dir.path().to_str().unwrap();
        // Whatever the directory is called.
        read(&path).map_err(|error| error.replace(there, "DIR"))
    }

    /// As kubectl's own commands write it, and as kube's reader takes it.
    #[test]
    fn it_is_what_the_librarys_reader_makes_of_it() {
        let text = "
apiVersion: v1
kind: Config
current-context: gpu
preferences: {}
clusters:
- name: one
  cluster: {server: 'https://10.0.0.1:6443', certificate-authority: pki/ca.crt, tls-server-name: api}
- name: two
  cluster: {server: 'https://10.0.0.2:6443', certificate-authority-data: QUJD, insecure-skip-tls-verify: true}
contexts:
- name: gpu
  context: {cluster: one, user: agent, namespace: selvage}
users:
- name: agent
  user: {client-certificate: pki/a.crt, client-key: /abs/a.key, tokenFile: ./token}
- name: cloud
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/helper
      args: [--cluster, gpu]
      env: [{name: REGION, value: eu}]
      interactiveMode: Never
- name: path
  user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws}}
";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        let shown = |config: &Kubeconfig| serde_json::to_value(config).unwrap();
        let ours = shown(&read(&path).unwrap());
        assert_eq!(ours, shown(&Kubeconfig::read_from(&path).unwrap()));
        let joined = |file: &str| dir.path().join(file).to_str().unwrap().to_string();
        let user = |at: usize| &ours["users"][at]["user"];
        assert_eq!(user(0)["client-certificate"], joined("pki/a.crt"));
        assert_eq!(user(1)["exec"]["command"], joined("bin/helper"));
    }

    #[test]
    fn what_is_none_is_said_with_its_name() {
        for (text, says) in [
            ("clusters: [", "DIR/config: "),
            ("clusters: 7", "invalid type"),
            ("[]", "DIR/config: "),
            ("\u{0}\u{1}", "DIR/config: "),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert!(read_text("").unwrap().clusters.is_empty());
        let error = read(Path::new("/nowhere/config")).unwrap_err();
        assert!(error.starts_with("/nowhere/config: "), "{error}");
    }
}
