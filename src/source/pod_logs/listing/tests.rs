use super::*;
use std::os::unix::fs::symlink;

#[test]
fn links_are_resolved_below_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::fs::write(root.join("a/b/file"), "x").unwrap();
    for (link, target) in [
        ("absolute", "/a/b/file"),
        ("relative", "a/./b/../b/file"),
        ("up", "../../../a/b/file"),
        ("chain", "absolute"),
        ("way", "/a"),
        ("loop", "/loop"),
        ("nowhere", "/a/c/file"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    for (path, want) in [
        ("a/b/file", Some("a/b/file")),
        ("absolute", Some("a/b/file")),
        ("relative", Some("a/b/file")),
        ("up", Some("a/b/file")),
        ("chain", Some("a/b/file")),
        ("way/b/file", Some("a/b/file")),
        ("way/../absolute", Some("a/b/file")),
        ("loop", None),
        ("nowhere", None),
    ] {
        let got = resolve(root, &root.join(path)).ok();
        assert_eq!(got, want.map(|want| root.join(want)), "{path}");
    }
    assert!(resolve(root, Path::new("/elsewhere")).is_err());
}

#[test]
fn files_are_listed_oldest_first_and_once() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "1.log",
        "0.log",
        "0.log.20241114-101112.gz",
        "0.log.20241114-101112",
        "0.log.20241113-101112.gz",
        "0.log.20241115-101112.tmp",
        "10.log",
        "2.log",
    ] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let listing = list(dir.path(), dir.path()).unwrap();
    let names: Vec<_> = (listing.entries.iter())
        .map(|entry| entry.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "0.log.20241113-101112.gz",
            "0.log.20241114-101112",
            "0.log",
            "1.log",
            "2.log",
            "10.log"
        ]
    );
}
