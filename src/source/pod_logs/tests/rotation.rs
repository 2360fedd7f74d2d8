use super::*;

const R1: &str = "0.log.20241114-101112";
const R2: &str = "0.log.20241114-101512";
const R3: &str = "0.log.20241114-101912";

/// With descriptors kept and without.
fn rigs() -> impl Iterator<Item = Rig> {
    let rig = |open_files| Rig::new(|options| options.open_files = open_files);
    [0, 64].into_iter().map(rig)
}

type Step = fn(&Rig);

#[test]
fn no_line_is_lost_or_repeated_whatever_the_rotation() {
    let cases: &[(&str, &[Step], &[&str])] = &[
        (
            "renamed with bytes unread",
            &[
                |rig| rig.write("0.log", "NCCL 1\n"),
                |rig| {
                    rig.write("0.log", "NCCL 2\n");
                    rig.rename("0.log", R1);
                    rig.write("0.log", "NCCL 3\n");
                },
            ],
            &["NCCL 1", "NCCL 2", "NCCL 3"],
        ),
        (
            "twice between looks",
            &[
                |rig| rig.write("0.log", "NCCL 1\n"),
                |rig| {
                    rig.write("0.log", "NCCL 2\n");
                    rig.rename("0.log", R1);
                    rig.write("0.log", "NCCL 3\n");
                    rig.rename("0.log", R2);
                    rig.write("0.log", "NCCL 4\n");
                },
            ],
            &["NCCL 1", "NCCL 2", "NCCL 3", "NCCL 4"],
        ),
        (
            "packed between looks",
            &[
                |rig| rig.write("0.log", "first\nNCCL 1\n"),
                |rig| {
                    rig.write("0.log", "NCCL 2\n");
                    rig.rename("0.log", R1);
                    rig.write("0.log", "NCCL 3\n");
                    rig.rename("0.log", R2);
                    rig.write("0.log", "NCCL 4\n");
                    rig.pack(R1);
                    rig.rename("0.log", R3);
                    rig.write("0.log", "NCCL 5\n");
                    rig.pack(R2);
                },
            ],
            &["NCCL 1", "NCCL 2", "NCCL 3", "NCCL 4", "NCCL 5"],
        ),
        (
            "a half line at a rotated file's end",
            &[
                |rig| rig.write("0.log", "NCCL 1"),
                |rig| {
                    rig.rename("0.log", R1);
                    rig.write("0.log", "NCCL 2\n");
                },
            ],
            &["NCCL 1", "NCCL 2"],
        ),
        (
            "the new file comes late",
            &[
                |rig| rig.write("0.log", "NCCL 1\n"),
                |rig| rig.rename("0.log", R1),
                |rig| rig.write(R1, "NCCL 2\n"),
                |rig| rig.write("0.log", "NCCL 3\n"),
            ],
            &["NCCL 1", "NCCL 2", "NCCL 3"],
        ),
        (
            "restarts",
            &[
                |rig| rig.write("0.log", "NCCL 1\n"),
                |rig| rig.write("1.log", "NCCL 2\n"),
                |rig| {
                    rig.write("1.log", "NCCL 3\n");
                    rig.write("2.log", "NCCL 4\n");
                    rig.remove("0.log");
                },
                |rig| rig.write("10.log", "NCCL 5\n"),
            ],
            &["NCCL 1", "NCCL 2", "NCCL 3", "NCCL 4", "NCCL 5"],
        ),
        (
            "cut back by who copies",
            &[
                |rig| rig.write("0.log", "NCCL 1\nNCCL 2 long enough\n"),
                |rig| {
                    File::create(rig.path("0.log")).unwrap();
                    rig.write("0.log", "NCCL 3\n");
                },
            ],
            &["NCCL 1", "NCCL 2 long enough", "NCCL 3"],
        ),
        (
            "replaced under the same name",
            &[
                |rig| rig.write("0.log", "NCCL 1\n"),
                |rig| {
                    rig.remove("0.log");
                    rig.write("0.log", "NCCL 2, and longer than what was there\n");
                },
            ],
            &["NCCL 1", "NCCL 2, and longer than what was there"],
        ),
    ];
    for (case, steps, want) in cases {
        for resting in [false, true] {
            for mut rig in rigs() {
                for step in *steps {
                    step(&rig);
                    rig.poll();
                    if resting {
                        rig.settle();
                    }
                }
                rig.settle();
                let told = format!("{case}; resting: {resting}, {:?}", rig.options);
                assert_eq!(rig.lines(), *want, "{told}");
                // A file that was not open when it was removed is not noticed.
                // (Its successor may have got its inode, so that it looks cut back.)
                let removed = ["restarts", "replaced under the same name"].contains(case);
                let unknown = rig.options.open_files == 0 && removed;
                let lost = if unknown { 0 } else { rig.came.lost.len() };
                assert_eq!(lost, 0, "{told}");
                assert_eq!(rig.came.lost.iter().sum::<u64>(), 0, "{told}");
            }
        }
    }
}

#[test]
fn the_runtime_may_go_on_with_a_renamed_file_for_a_while() {
    for mut rig in rigs() {
        rig.write("0.log", "NCCL 1\n");
        rig.poll();
        rig.rename("0.log", R1);
        rig.write("0.log", "NCCL 4\n");
        for text in ["NCCL 2\nNC", "CL 3\n"] {
            rig.poll();
            rig.write(R1, text);
        }
        rig.settle();
        assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2", "NCCL 3", "NCCL 4"]);
        assert_eq!(rig.came.lost, [0; 0]);
    }
}

#[test]
fn lines_bear_the_restart_of_their_file() {
    let mut rig = Rig::new(|_| {});
    rig.write("3.log", "NCCL a\n");
    rig.poll();
    rig.write("4.log", "NCCL b\n");
    rig.settle();
    let restarts: Vec<u32> = rig.came.lines.iter().map(|line| line.1).collect();
    assert_eq!(restarts, [3, 4]);
}

#[test]
fn overwritten_in_place_is_read_from_its_start() {
    let mut rig = Rig::new(|_| {});
    rig.write("0.log", "NCCL 1\n");
    rig.settle();
    // Grown past the old place before anyone looked: only its beginning tells.
    fs::write(rig.path("0.log"), "NCCL 2 longer\nNCCL 3\n").unwrap();
    for _ in 0..100 {
        rig.poll();
    }
    assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2 longer", "NCCL 3"]);
}

#[test]
fn what_is_gone_unread_is_told() {
    let mut rig = Rig::new(|options| {
        options.open_files = 0;
        options.share = 16;
        options.buffer = 64;
        options.longest_line = 32;
        options.backlog = 1;
    });
    rig.write("0.log", &"NCCL 1234\n".repeat(100));
    rig.poll();
    rig.remove("0.log");
    rig.write("1.log", "NCCL after\n");
    let before = rig.came.lines.len();
    assert!((1..100).contains(&before), "{before}");
    rig.settle();
    assert_eq!(rig.came.lost.len(), 1);
    assert_eq!(rig.lines().last().unwrap(), "NCCL after");
}

#[test]
fn an_open_file_is_read_to_its_end_after_it_was_removed() {
    let mut rig = Rig::new(|options| {
        options.share = 16;
        options.buffer = 64;
        options.longest_line = 32;
        options.backlog = 1;
    });
    rig.write("0.log", &"NCCL 1234\n".repeat(100));
    rig.poll();
    fs::remove_dir_all(rig.dir.path().join("var/log/pods").join(POD)).unwrap();
    rig.settle();
    assert_eq!(rig.lines().len(), 100);
    assert_eq!(rig.came.lost, [0; 0]);
    assert_eq!(rig.came.gone, ["main"]);
    assert_eq!(rig.poll().containers, 0);
}

#[test]
fn a_packed_file_that_is_broken_is_told_and_passed() {
    let mut rig = Rig::new(|_| {});
    rig.poll();
    rig.write("0.log.20241114-101112.gz", "no gzip at all");
    rig.write("0.log", "NCCL 1\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 1"]);
    assert_eq!(rig.came.lost, [0]);
    assert_eq!(rig.poll().open_files, 0);
}
