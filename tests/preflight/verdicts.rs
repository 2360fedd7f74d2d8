//! Headlines and exit statuses.

use super::trees::{Container, JOB};
use super::{Said, preflight};
use crate::support::scratch;

#[test]
fn google_s_rails_are_known_by_their_drivers() {
    let dir = Container::on("gcp_a3_mega");
    dir.remove("selvage/addresses");
    let args = ["-o", "json", "--gpus", "8", "--host-root", dir.root()];
    let said = Said::of(&preflight(JOB, &args).output().unwrap());
    assert_eq!(said.told("uverbs"), "skipped", "{}", said.item("uverbs"));
    assert_eq!(said.told("net_plugin"), "failing PluginMissing");
}

#[test]
fn the_headline_tells_of_tcp() {
    let container = Container::roce();
    container.remove("sys/class/infiniband");
    container.remove("sys/class/infiniband_verbs");
    let head = |variables: &[(&str, &str)]| {
        let args = ["--gpus", "8", "--host-root", container.root()];
        let done = preflight(variables, &args).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        (
            done.status.code().unwrap(),
            text.lines().next().unwrap().to_string(),
        )
    };
    let many: &[(&str, &str)] = &[("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")];
    let (code, text) = head(&[many, &[("NCCL_NET", "Socket")]].concat());
    assert_eq!(code, 1);
    assert!(
        text.starts_with("DEGRADED  the job will use TCP, as its settings ask: TcpConfigured"),
        "{text}"
    );
    let (code, text) = head(&[("NCCL_IB_DISABLE", "1")]);
    assert_eq!(code, 0);
    assert_eq!(text, "READY  the job will use TCP, as its settings ask");
    let (code, text) = head(&[("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "8")]);
    assert_eq!(code, 0);
    assert!(!text.contains("can use the fabric"), "{text}");
    // On EFA it is no wish for TCP.
    let efa = [("NCCL_IB_DISABLE", "1"), ("FI_PROVIDER", "efa")];
    let (code, text) = head(&[many, &efa].concat());
    assert_eq!(code, 2);
    assert!(text.contains("NoRdmaDevice"), "{text}");
}

#[test]
fn the_screen_and_warn() {
    let container = Container::roce();
    let args = ["--host-root", container.root()];
    let bad = [("NCCL_IB_HCA", "nothing")];
    let strict = preflight(&bad, &args).output().unwrap();
    assert_eq!(strict.status.code(), Some(2));
    let text = String::from_utf8(strict.stdout).unwrap();
    assert!(text.starts_with("UNREADY  "), "{text}");
    assert!(text.contains("HcaMatchesNothing"), "{text}");
    assert!(text.contains("fix: NCCL_IB_HCA: unset it"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let warned = preflight(&bad, &[&args[..], &["--warn"]].concat())
        .output()
        .unwrap();
    assert_eq!(warned.status.code(), Some(0));
    assert_eq!(String::from_utf8(warned.stdout).unwrap(), text);
    let by_variable = preflight(&[bad[0], ("SELVAGE_PREFLIGHT_WARN", "true")], &args);
    assert_eq!({ by_variable }.output().unwrap().status.code(), Some(0));
}

#[test]
fn which_verdicts_fail_a_pod() {
    let container = Container::roce();
    let code = |bad: &(&str, &str), more: &[(&str, &str)], args: &[&str]| {
        let args = [&["--host-root", container.root()], args].concat();
        let variables = [JOB, &[*bad], more].concat();
        let mut command = preflight(&variables, &args);
        command.output().unwrap().status.code().unwrap()
    };
    let degraded = ("NCCL_IB_TC", "auto");
    let unready = ("NCCL_IB_HCA", "nothing");
    for (verdict, any, degraded_too, only_unready) in [(degraded, 1, 1, 0), (unready, 2, 2, 2)] {
        assert_eq!(code(&verdict, &[], &[]), any);
        assert_eq!(code(&verdict, &[], &["--fail-on", "any"]), any);
        assert_eq!(code(&verdict, &[], &["--fail-on=degraded"]), degraded_too);
        assert_eq!(code(&verdict, &[], &["--fail-on=unready"]), only_unready);
        let variable = [("SELVAGE_PREFLIGHT_FAIL_ON", "unready")];
        assert_eq!(code(&verdict, &variable, &[]), only_unready);
    }
    // Nothing to be seen is unknown.
    let dir = scratch();
    let args = ["--host-root", dir.path().to_str().unwrap(), "--fail-on"];
    for (word, want) in [("any", 3), ("degraded", 0), ("unready", 0)] {
        let done = preflight(&[], &[&args[..], &[word]].concat()).output();
        assert_eq!(done.unwrap().status.code(), Some(want), "{word}");
    }
    // Manifests give an empty variable for none.
    for name in ["GPUS", "TIMEOUT", "WARN", "FAIL_ON"] {
        let name = format!("SELVAGE_PREFLIGHT_{name}");
        assert_eq!(code(&unready, &[(&name, "")], &[]), 2, "{name}");
        assert_eq!(code(&unready, &[(&name, "")], &["--warn"]), 0, "{name}");
    }
    assert_eq!(code(&unready, &[("SELVAGE_HOST_ROOT", "")], &["--warn"]), 0);
}
