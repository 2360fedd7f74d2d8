use super::*;
use crate::observe::Fault;
use std::os::unix::fs::symlink;

/// Docker's way: the link's target is absolute on the host.
fn docker(rig: &Rig) -> PathBuf {
    let dir = rig.dir.path().join("var/lib/docker/containers/abc");
    fs::create_dir_all(&dir).unwrap();
    symlink(
        "/var/lib/docker/containers/abc/abc-json.log",
        rig.path("0.log"),
    )
    .unwrap();
    dir
}

#[test]
fn a_link_leads_below_the_root_and_its_target_is_rotated_by_number() {
    let mut rig = Rig::new(|_| {});
    let dir = docker(&rig);
    append(&dir.join("abc-json.log"), "NCCL 1\n");
    rig.poll();
    append(&dir.join("abc-json.log"), "NCCL 2\n");
    fs::rename(dir.join("abc-json.log"), dir.join("abc-json.log.1")).unwrap();
    append(&dir.join("abc-json.log"), "NCCL 3\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2", "NCCL 3"]);

    // Two at once, the older one packed.
    rig.restart();
    append(&dir.join("abc-json.log"), "NCCL 4\n");
    fs::rename(dir.join("abc-json.log.1"), dir.join("abc-json.log.3")).unwrap();
    fs::rename(dir.join("abc-json.log"), dir.join("abc-json.log.2")).unwrap();
    pack(&dir.join("abc-json.log.2"));
    append(&dir.join("abc-json.log.1"), "NCCL 5\n");
    append(&dir.join("abc-json.log"), "NCCL 6\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 4", "NCCL 5", "NCCL 6"]);
    assert_eq!(rig.came.lost, [0; 0]);
}

#[test]
fn links_on_the_way_are_followed_and_none_leaves_the_root() {
    let mut rig = Rig::new(|_| {});
    let root = rig.dir.path().to_path_buf();
    let real = root.join("data/docker/c");
    fs::create_dir_all(&real).unwrap();
    append(&real.join("c.log"), "NCCL 1\n");
    fs::create_dir_all(root.join("var/lib")).unwrap();
    symlink("/data/docker", root.join("var/lib/docker")).unwrap();
    symlink(
        "../../../../../../../../../../../../var/lib/docker/c/c.log",
        rig.path("0.log"),
    )
    .unwrap();
    rig.poll();
    assert_eq!(rig.lines(), ["NCCL 1"]);
}

#[test]
fn the_directory_of_all_pods_may_be_a_link() {
    let mut rig = Rig::new(|_| {});
    let root = rig.dir.path().to_path_buf();
    rig.write("0.log", "NCCL 1\n");
    fs::rename(root.join("var/log/pods"), root.join("elsewhere")).unwrap();
    symlink("/elsewhere", root.join("var/log/pods")).unwrap();
    rig.poll();
    assert_eq!(rig.lines(), ["NCCL 1"]);
}

#[test]
fn a_link_that_leads_nowhere_is_told_and_found_when_it_does() {
    for target in ["/nowhere/x.log", "0.log", "/", "/dev", ""] {
        let mut rig = Rig::new(|_| {});
        let link = rig.path("0.log");
        if !target.is_empty() {
            symlink(target, &link).unwrap();
        } else {
            // A link to something else than a regular file.
            nix::unistd::mkfifo(&rig.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
            symlink("pipe", &link).unwrap();
        }
        let told: Option<Fault> = rig.poll().fault;
        assert!(
            told.is_some_and(|fault| fault.detail.contains("0.log")),
            "{target}"
        );
        assert_eq!(rig.poll().unreadable, 1, "{target}");
        rig.write("1.log", "NCCL 1\n");
        rig.settle();
        assert_eq!(rig.lines(), ["NCCL 1"], "{target}");
        if target == "/nowhere/x.log" {
            rig.remove("1.log");
            fs::create_dir(rig.dir.path().join("nowhere")).unwrap();
            append(&rig.dir.path().join("nowhere/x.log"), "");
            rig.settle();
            assert_eq!(rig.poll().unreadable, 0);
        }
    }
}
