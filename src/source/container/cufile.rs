//! `cufile.json` (GPUDirect Storage's settings; NVIDIA's own file has `//` comments).

use crate::host::Host;
use crate::observe::container::{CuFile, Environment, StorageFacts};
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::source::{container::nodes, tree};

/// Where cuFile looks without `CUFILE_ENV_PATH_JSON`.
const DEFAULT: &str = "/etc/cufile.json";

/// Longest file taken.
const MAX: usize = 256 << 10;

/// The file that cuFile would read, and the driver's nodes.
pub fn read(host: &Host, environment: &Environment) -> StorageFacts {
    let path = environment
        .get("CUFILE_ENV_PATH_JSON")
        .filter(|path| !path.is_empty())
        .unwrap_or(DEFAULT)
        .to_string();
    let relative = path.trim_start_matches('/');
    let cufile = if relative.is_empty() || !tree::exists(host, relative) {
        Reading::Absent
    } else if tree::is_file(host, relative) {
        tree::read_bytes(host, relative, MAX)
            .and_then(|bytes| parse(&String::from_utf8_lossy(&bytes)))
    } else {
        malformed("no regular file")
    };
    StorageFacts {
        cufile,
        nodes: nodes::nvidia_fs(host),
        path,
    }
}

fn malformed(what: &str) -> Reading<CuFile> {
    Reading::Failed(Fault {
        kind: FaultKind::Malformed,
        detail: what.to_string(),
    })
}

/// What of the file matters.
pub fn parse(text: &str) -> Reading<CuFile> {
    let json: serde_json::Value = match serde_json::from_str(&without_comments(text)) {
        Ok(json) => json,
        Err(error) => return malformed(&error.to_string()),
    };
    if !json.is_object() {
        return malformed("no JSON object");
    }
    let compat = json.pointer("/properties/allow_compat_mode");
    Reading::Value(CuFile {
        allow_compat_mode: compat.and_then(serde_json::Value::as_bool),
    })
}

/// Takes out `//` comments, which stand outside of strings, and commas before a closing bracket,
/// both of which cuFile's reader passes over.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            '}' | ']' if !in_string => {
                let kept = out.trim_end();
                if kept.ends_with(',') {
                    out.truncate(kept.len() - 1);
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;
    use proptest::prelude::*;

    #[test]
    fn files_as_they_are_shipped() {
        let file = "{\n // NOTE : \"comments\"\n \"logging\": { // \"dir\": \"/x\",\n \"level\": \"ERROR//\" },\n \"properties\": { \"allow_compat_mode\": true, // yes\n \"gds_rdma_write_support\": true, } }";
        assert_eq!(
            parse(file),
            Reading::Value(CuFile {
                allow_compat_mode: Some(true)
            })
        );
        assert_eq!(parse("{}"), Reading::Value(CuFile::default()));
        for broken in ["", "[]", "{", "{\"properties\": }", "\u{fffd}"] {
            assert!(matches!(parse(broken), Reading::Failed(_)), "{broken:?}");
        }
    }

    #[test]
    fn which_file() {
        let tree = TestTree::bare();
        let mut environment = Environment::default();
        let got = read(&tree.host(), &environment);
        assert_eq!((got.path.as_str(), got.cufile), (DEFAULT, Reading::Absent));
        tree.file("etc/cufile.json", "{}");
        assert!(read(&tree.host(), &environment).cufile.value().is_some());
        let variables = &mut environment.variables;
        variables.insert("CUFILE_ENV_PATH_JSON".into(), "/own/cufile.json".into());
        assert_eq!(read(&tree.host(), &environment).cufile, Reading::Absent);
        tree.dir("own/cufile.json");
        assert!(matches!(
            read(&tree.host(), &environment).cufile,
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
