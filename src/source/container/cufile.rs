//! `cufile.json`: GPUDirect Storage's settings. The file that NVIDIA ships has `//` comments.

use super::nodes;
use crate::host::Host;
use crate::observe::{Environment, Reading, StorageFacts};
use crate::source::tree;
use regex::Regex;

/// Where cuFile looks without `CUFILE_ENV_PATH_JSON`.
const DEFAULT: &str = "/etc/cufile.json";

/// Bytes of the file that are read at most.
const MAX: usize = 256 << 10;

/// The file that cuFile would read, and the driver's device nodes.
pub(crate) fn read(host: &Host, environment: &Environment) -> StorageFacts {
    let variable = environment.get("CUFILE_ENV_PATH_JSON");
    let path = variable.filter(|path| !path.is_empty()).unwrap_or(DEFAULT);
    let file = tree::read_regular(host, path, MAX);
    StorageFacts {
        path: path.to_string(),
        compat_mode: file.and_then(|bytes| parse(&String::from_utf8_lossy(&bytes))),
        nodes: nodes::nvidia_fs(host),
    }
}

/// `properties.allow_compat_mode`, true unless set.
fn parse(text: &str) -> Reading<bool> {
    match serde_json::from_str::<serde_json::Value>(&without_comments(text)) {
        Err(error) => Reading::malformed(error.to_string()),
        Ok(json) if !json.is_object() => Reading::malformed("not a JSON object"),
        Ok(json) => {
            let compat = json.pointer("/properties/allow_compat_mode");
            Reading::Value(compat.and_then(|value| value.as_bool()).unwrap_or(true))
        }
    }
}

/// Removes `//` comments outside of strings and commas before a closing bracket, both of which
/// cuFile's parser ignores.
fn without_comments(text: &str) -> String {
    const STRING: &str = r#"("(?:[^"\\]|\\.)*"?)"#;
    let mut text = text.to_string();
    for ignored in ["//[^\n]*()", r",[,\s]*([}\]])"] {
        if let Ok(pattern) = Regex::new(&format!("(?s){STRING}|{ignored}")) {
            text = pattern.replace_all(&text, "$1$2").into_owned();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;
    use proptest::prelude::*;

    #[test]
    fn files_as_they_are_shipped() {
        let file = "{\n // NOTE : \"comments\"\n \"logging\": { // \"dir\": \"/x\",\n \"level\": \"ERROR//\" },\n \"properties\": { \"allow_compat_mode\": false, // yes\n \"gds_rdma_write_support\": true, } }";
        assert_eq!(parse(file), Reading::Value(false));
        assert_eq!(parse("{}"), Reading::Value(true));
        for broken in ["", "[]", "{", "{\"properties\": }", "\u{fffd}"] {
            assert!(matches!(parse(broken), Reading::Failed(_)), "{broken:?}");
        }
    }

    #[test]
    fn which_file() {
        let tree = TestTree::bare();
        let mut environment = Environment::default();
        let got = read(&tree.host(), &environment);
        assert_eq!(
            (got.path.as_str(), got.compat_mode),
            (DEFAULT, Reading::Absent)
        );
        tree.file("etc/cufile.json", "{}");
        assert!(
            read(&tree.host(), &environment)
                .compat_mode
                .value()
                .is_some()
        );
        let variables = &mut environment.variables;
        variables.insert("CUFILE_ENV_PATH_JSON".into(), "/own/cufile.json".into());
        assert_eq!(
            read(&tree.host(), &environment).compat_mode,
            Reading::Absent
        );
        tree.dir("own/cufile.json");
        assert!(matches!(
            read(&tree.host(), &environment).compat_mode,
            Reading::Failed(_)
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            parse(&text);
        }
    }
}
