//! Settings of the job: the process environment, and the files that NCCL reads over it.

use crate::host::Host;
use crate::observe::container::Environment;
use crate::observe::reading::{FaultKind, Reading};
use crate::source::tree;
use std::ffi::OsString;
use std::path::Path;

/// Beginnings of the names that are kept. Nothing else of an environment is looked at: the rest is
/// none of ours, and may be secret.
const KEPT: &[&str] = &[
    "NCCL_",
    "GLOO_",
    "UCX_",
    "FI_",
    "OFI_NCCL_",
    "OMPI_",
    "PMI_",
    "MPI_LOCAL",
    "SLURM_",
    "PET_",
    "LWS_",
    "JOB_COMPLETION_INDEX",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "NNODES",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "CUFILE_",
    "NVIDIA_GDS",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "HOME",
];

/// Longest value kept, in bytes: of lists of directories, as much as the kernel lets a variable have
/// (`MAX_ARG_STRLEN`). How many variables there are the kernel bounds too, by their bytes.
const MAX_VALUE: usize = 4096;
const MAX_LIST: usize = 128 << 10;

/// NCCL reads at most so much of a line of its files (src/misc/param.cc).
const MAX_LINE: usize = 4095;

/// Settings among `variables`, and those of NCCL's files below the root.
pub fn read(host: &Host, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let environment = of_process(variables);
    let files: Vec<_> = conf_files(&environment)
        .into_iter()
        .map(|file| (read_file(host, &file), file))
        .collect();
    with_files(environment, files)
}

/// Settings among a process' variables alone.
pub fn of_process(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let variables = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_string(), value)))
        .filter(|(name, _)| KEPT.iter().any(|kept| name.starts_with(kept)))
        .map(|(name, value)| {
            let most = match name.ends_with("_PATH") {
                true => MAX_LIST,
                false => MAX_VALUE,
            };
            (name, cut(&value.to_string_lossy(), most))
        })
        .collect();
    Environment {
        variables,
        ..Environment::default()
    }
}

/// `NAME=value` lines of one file.
pub type Lines = Vec<(String, String)>;

/// Settings of one of NCCL's files. May hang where its file system does.
pub fn read_file(host: &Host, file: &str) -> Reading<Lines> {
    let path = file.strip_prefix('/').unwrap_or(file);
    if path.is_empty() || !tree::is_file(host, path) {
        return Reading::Absent;
    }
    tree::read_text(host, path).map(|text| parse(&text))
}

/// The environment with what NCCL's files say, in their order.
pub fn with_files(
    mut environment: Environment,
    files: Vec<(Reading<Lines>, String)>,
) -> Environment {
    for (settings, file) in files {
        match settings {
            Reading::Value(settings) => {
                for (name, value) in settings {
                    // `setenv` without overwriting: the first one that says it wins.
                    let known = environment.nccl_files.entry(name);
                    known.or_insert_with(|| (value, file.clone()));
                }
            }
            // What may not be read is nothing to NCCL either.
            Reading::Failed(fault) if fault.kind != FaultKind::Denied => {
                environment.unread.push(fault.detail);
            }
            _ => {}
        }
    }
    environment
}

/// NCCL's files, in the order in which they are read: `NCCL_CONF_FILE` or else `~/.nccl.conf`, then
/// `/etc/nccl.conf`.
pub fn conf_files(environment: &Environment) -> Vec<String> {
    let own = environment
        .get("NCCL_CONF_FILE")
        .filter(|file| !file.is_empty());
    let user = match (own, environment.get("HOME")) {
        (Some(file), _) => Some(file.to_string()),
        (None, Some(home)) => Some(Path::new(home).join(".nccl.conf").display().to_string()),
        _ => None,
    };
    user.into_iter().chain(["/etc/nccl.conf".into()]).collect()
}

/// `NAME=value` lines; `#` in the first column begins a comment. Blanks are part of names and
/// values. Names that are not NCCL's are left out: they come too late for whoever reads them.
pub fn parse(text: &str) -> Lines {
    text.lines()
        .map(|line| cut(line, MAX_LINE))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.starts_with("NCCL_")).then(|| (name.to_string(), value.to_string()))
        })
        .collect()
}

fn cut(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;
    use std::os::unix::ffi::OsStringExt;

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
}
