use super::*;
use crate::observe::{FaultKind, Reading};
use nix::sys::stat::Mode;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let mut rig = Rig::new(|_| {});
    nix::unistd::mkfifo(&rig.path("0.log"), Mode::S_IRWXU).unwrap();
    fs::create_dir(rig.path("1.log")).unwrap();
    let _socket = UnixListener::bind(rig.path("2.log")).unwrap();
    assert!(rig.poll().fault.is_some());
    assert_eq!(rig.poll().unreadable, 1);
    rig.write("3.log", "NCCL 1\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 1"]);
    // It becomes one between listing and opening: as good as the same.
    rig.remove("3.log");
    nix::unistd::mkfifo(&rig.path("3.log"), Mode::S_IRWXU).unwrap();
    rig.settle();
    assert!(listing::open(&rig.path("3.log")).is_err());
}

#[test]
fn odd_names_are_passed_over() {
    let mut rig = Rig::new(|_| {});
    let pods = rig.dir.path().join("var/log/pods");
    rig.write("0.log", "NCCL 1\n");
    for odd in [
        &b"ns_pod"[..],
        b"a_b_c_d",
        b"ns_\xff\xfe_uid",
        b"lost+found",
        "ns_\u{202e}_".as_bytes(),
    ] {
        fs::create_dir(pods.join(OsStr::from_bytes(odd))).unwrap();
    }
    append(&pods.join("ns_file_uid"), "NCCL no\n");
    append(&pods.join(POD).join("file"), "NCCL no\n");
    fs::create_dir(pods.join(POD).join(OsStr::from_bytes(b"\xff"))).unwrap();
    std::os::unix::fs::symlink("/", pods.join("ns_link_uid")).unwrap();
    append(&rig.path("0.log.tmp"), "NCCL no\n");
    append(&rig.path("core"), "NCCL no\n");
    let stats = rig.poll();
    assert_eq!(stats.containers, 1);
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 1"]);
}

#[test]
fn no_directory_is_told_and_looked_for_again() {
    let mut rig = Rig::new(|_| {});
    let pods = rig.dir.path().join("var/log/pods");
    fs::remove_dir(&pods).unwrap();
    assert_eq!(rig.poll().root, Reading::Absent);
    fs::write(&pods, "no directory").unwrap();
    assert_ne!(rig.settle().root, Reading::Value(()));
    fs::remove_file(&pods).unwrap();
    rig.write("0.log", "NCCL 1\n");
    assert_eq!(rig.settle().root, Reading::Value(()));
    assert_eq!(rig.lines(), ["NCCL 1"]);
}

#[test]
fn a_directory_that_may_not_be_read_is_a_fault() {
    use std::os::unix::fs::PermissionsExt;
    let mut rig = Rig::new(|_| {});
    let pods = rig.dir.path().join("var/log/pods");
    fs::set_permissions(&pods, fs::Permissions::from_mode(0o000)).unwrap();
    let root = nix::unistd::geteuid().is_root();
    match rig.poll().root {
        Reading::Failed(fault) if !root => assert_eq!(fault.kind, FaultKind::Denied),
        Reading::Value(()) if root => {}
        other => panic!("{other:?}"),
    }
    fs::set_permissions(&pods, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn all_pods_gone_and_others_come() {
    let mut rig = Rig::new(|_| {});
    rig.write("0.log", "NCCL 1\n");
    rig.settle();
    let pods = rig.dir.path().join("var/log/pods");
    fs::remove_dir_all(&pods).unwrap();
    rig.settle();
    rig.write("0.log", "NCCL 2\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2"]);
}
