//! The job's settings: the process environment, and the files that NCCL reads in addition.

use crate::host::Host;
use crate::observe::{Environment, FaultKind, Reading};
use crate::source::tree;
use crate::units::start;
use std::{collections::BTreeMap, ffi::OsString};

/// Prefixes of the variables that are kept. All others are ignored: they do not concern the fabric
/// and may be secret.
const KEPT: &str = "NCCL_ GLOO_ UCX_ FI_ OMPI_ PRTE_MCA_ PMI_ MPI_LOCAL SLURM_ PET_ LWS_ \
    JOB_COMPLETION_INDEX MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK \
    LOCAL_WORLD_SIZE NODE_RANK NNODES GROUP_RANK GROUP_WORLD_SIZE CUFILE_ \
    NVIDIA_GDS LD_LIBRARY_PATH HOME";

/// Longest value that is kept, in bytes; lists of directories may be as long as the kernel allows
/// (`MAX_ARG_STRLEN`).
const MAX_VALUE: usize = 4096;
const MAX_LIST: usize = 128 << 10;

/// NCCL reads at most this many bytes of a line of its files (src/misc/param.cc).
const MAX_LINE: usize = 4095;

/// The relevant variables of a process. Bytes that are not UTF-8 are replaced.
pub(crate) fn of_process(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    let variables = variables.into_iter();
    let named = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    named
        .filter(|(name, _)| KEPT.split(' ').any(|kept| name.starts_with(kept)))
        .map(|(name, value)| {
            let is_list = name.ends_with("_PATH");
            let most = if is_list { MAX_LIST } else { MAX_VALUE };
            let value = start(&value.to_string_lossy(), most).to_string();
            (name, value)
        })
        .collect()
}

/// `NAME=value` lines of one file.
pub(crate) type EnvironmentLines = Vec<(String, String)>;

/// Settings of one NCCL file. Hangs where its file system does.
pub(crate) fn read_file(host: &Host, file: &str) -> Reading<EnvironmentLines> {
    let path = file.strip_prefix('/').unwrap_or(file);
    if path.is_empty() || !tree::is_file(host, path) {
        return Reading::Absent;
    }
    tree::read_text(host, path).map(|text| parse(&text))
}

/// Adds the settings of NCCL's files in their order: the first file that has a name wins. A file
/// that may not be read is ignored, as NCCL does.
pub(crate) fn add_files(
    environment: &mut Environment,
    files: impl IntoIterator<Item = (String, Reading<EnvironmentLines>)>,
) {
    for (file, settings) in files {
        match settings {
            Reading::Value(settings) => {
                for (name, value) in settings {
                    let known = environment.nccl_files.entry(name);
                    known.or_insert_with(|| (value, file.clone()));
                }
            }
            Reading::Failed(fault) if fault.kind != FaultKind::Denied => {
                environment.unread.push(fault.detail);
            }
            _ => {}
        }
    }
}

/// NCCL's files in the order in which they are read: `NCCL_CONF_FILE` or else `~/.nccl.conf`, then
/// `/etc/nccl.conf`.
pub(crate) fn conf_files(environment: &Environment) -> Vec<String> {
    let file = environment.get("NCCL_CONF_FILE").map(str::to_string);
    let home = || Some(format!("{}/.nccl.conf", environment.get("HOME")?));
    let user = file.filter(|file| !file.is_empty()).or_else(home);
    user.into_iter().chain(["/etc/nccl.conf".into()]).collect()
}

/// `NAME=value` lines; `#` in the first column starts a comment. Blanks are part of names and
/// values. Only NCCL's own names are kept: others would take effect too late.
fn parse(text: &str) -> EnvironmentLines {
    text.lines()
        .map(|line| start(line, MAX_LINE))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("NCCL_"))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// For each of these settings that is set, whether the file that it names exists. An empty name counts as a missing
/// file. Relative names are left out: they depend on a working directory that is unknown here.
pub(crate) fn referenced_files(
    host: &Host,
    environment: &Environment,
    settings: &[&'static str],
) -> BTreeMap<String, Reading<()>> {
    let mut found = BTreeMap::new();
    let set = settings.iter().map(|name| (name, environment.nccl(name)));
    for (name, setting) in set.filter_map(|(name, setting)| Some((name, setting?))) {
        let reading = match setting.value.strip_prefix('/') {
            None if setting.value.is_empty() => Reading::Absent,
            None => continue,
            Some(path) if tree::is_file(host, path) => Reading::Value(()),
            Some(path) if tree::exists(host, path) => Reading::malformed("not a regular file"),
            Some(_) => Reading::Absent,
        };
        found.insert((*name).to_string(), reading);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;
    use std::os::unix::ffi::OsStringExt;

    fn read(host: &Host, variables: Vec<(OsString, OsString)>) -> Environment {
        let mut environment = Environment {
            variables: of_process(variables),
            ..Environment::default()
        };
        let files = conf_files(&environment);
        let files: Vec<_> = (files.into_iter())
            .map(|file| (file.clone(), read_file(host, &file)))
            .collect();
        add_files(&mut environment, files);
        environment
    }

    fn of(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let pairs = pairs.iter();
        pairs.map(|(n, v)| (n.into(), v.into())).collect()
    }

    #[test]
    fn only_what_concerns_the_fabric_is_kept() {
        let tree = TestTree::bare();
        let mut variables = of(&[("NCCL_DEBUG", "INFO"), ("AWS_SECRET", "x"), ("RANK", "0")]);
        variables.push(("NCCL_IB_HCA".into(), OsString::from_vec(vec![b'm', 0xff])));
        variables.push((OsString::from_vec(vec![0xfe]), "x".into()));
        variables.push(("NCCL_LONG".into(), "x".repeat(99_999).into()));
        let got = read(&tree.host(), variables);
        let names: Vec<&str> = got.variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_LONG", "RANK"]);
        assert_eq!(got.get("NCCL_IB_HCA"), Some("m\u{fffd}"));
        assert_eq!(got.get("NCCL_LONG").unwrap().len(), MAX_VALUE);
    }

    #[test]
    fn nothing_that_matters_is_cut() {
        let tree = TestTree::bare();
        let mut variables: Vec<_> = (0..2000)
            .map(|n| (format!("NCCL_A{n}").into(), "x".into()))
            .collect();
        let long = "/a/directory:".repeat(9000);
        variables.extend(of(&[("WORLD_SIZE", "16"), ("LD_LIBRARY_PATH", &long)]));
        let got = read(&tree.host(), variables);
        assert_eq!(got.get("WORLD_SIZE"), Some("16"));
        assert_eq!(got.get("LD_LIBRARY_PATH"), Some(long.as_str()));
        let lines: String = (0..2000).map(|n| format!("NCCL_A{n}=1\n")).collect();
        assert_eq!(parse(&lines).len(), 2000);
    }

    #[test]
    fn nccl_files_stand_behind_the_environment() {
        let tree = TestTree::bare();
        tree.file(
            "etc/nccl.conf",
            "# NCCL_NET=IB\nNCCL_NET=Socket\nNCCL_IB_HCA=mlx5_9\nNCCL_DEBUG =INFO\njunk\nPATH=/x",
        );
        tree.file("home/a/.nccl.conf", "NCCL_IB_HCA=mlx5_1");
        tree.file("own.conf", "NCCL_IB_HCA=mlx5_2");
        for (variables, want) in [
            (vec![], ("mlx5_9", Some("/etc/nccl.conf"))),
            (
                vec![("HOME", "/home/a")],
                ("mlx5_1", Some("/home/a/.nccl.conf")),
            ),
            (
                vec![("HOME", "/home/a"), ("NCCL_CONF_FILE", "/own.conf")],
                ("mlx5_2", Some("/own.conf")),
            ),
            (
                vec![("HOME", "/home/a"), ("NCCL_IB_HCA", "mlx5_3")],
                ("mlx5_3", None),
            ),
        ] {
            let got = read(&tree.host(), of(&variables));
            let hca = got.nccl("NCCL_IB_HCA").unwrap();
            assert_eq!((hca.value, hca.file), want, "{variables:?}");
            assert_eq!(got.nccl("NCCL_NET").unwrap().value, "Socket");
            assert_eq!(got.nccl("NCCL_DEBUG"), None);
            assert_eq!(got.nccl("PATH"), None);
        }
    }

    #[test]
    fn files_present_or_missing() {
        let tree = TestTree::bare();
        tree.file("etc/topo.xml", "<system/>");
        tree.dir("etc/dir");
        for (value, want) in [
            ("/etc/topo.xml", Some(Reading::Value(()))),
            ("/etc/none.xml", Some(Reading::Absent)),
            ("", Some(Reading::Absent)),
            ("topo.xml", None),
        ] {
            let mut environment = Environment::default();
            let variables = &mut environment.variables;
            variables.insert("NCCL_TOPO_FILE".into(), value.into());
            let got =
                referenced_files(&tree.host(), &environment, &["NCCL_TOPO_FILE", "NCCL_NONE"]);
            assert_eq!(got.get("NCCL_TOPO_FILE").cloned(), want, "{value:?}");
            assert!(!got.contains_key("NCCL_NONE"));
        }
        let mut environment = Environment::default();
        let variables = &mut environment.variables;
        variables.insert("NCCL_TOPO_FILE".into(), "/etc/dir".into());
        let got = referenced_files(&tree.host(), &environment, &["NCCL_TOPO_FILE"]);
        assert!(matches!(got["NCCL_TOPO_FILE"], Reading::Failed(_)));
    }
}
