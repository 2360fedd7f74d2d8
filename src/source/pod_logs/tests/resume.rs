use super::*;

const R1: &str = "0.log.20241114-101112";
const R2: &str = "0.log.20241114-101512";

#[test]
fn a_first_start_begins_with_current_files_and_takes_all_of_what_comes_later() {
    let mut rig = Rig::new(|_| {});
    rig.write(R1, "NCCL old\n");
    rig.write("0.log", "NCCL older restart\n");
    rig.write("1.log", "NCCL 1\n");
    rig.poll();
    assert_eq!(rig.lines(), ["NCCL 1"]);

    let late = rig.dir.path().join("var/log/pods/ns_late_1/main");
    fs::create_dir_all(&late).unwrap();
    append(&late.join(R1), "NCCL 2\n");
    append(&late.join("0.log"), "NCCL 3\n");
    append(&late.join("1.log"), "NCCL 4\n");
    rig.settle();
    assert_eq!(rig.lines(), ["NCCL 2", "NCCL 3", "NCCL 4"]);
}

type Away = fn(&Rig);

#[test]
fn nothing_is_repeated_or_missed_over_a_restart_of_the_agent() {
    let cases: &[(&str, Away, &[&str], usize)] = &[
        ("nothing happened", |_| {}, &[], 0),
        (
            "it grew",
            |rig| rig.write("0.log", "2\nNCCL 3\n"),
            &["NCCL 2", "NCCL 3"],
            0,
        ),
        (
            "rotated",
            |rig| {
                rig.write("0.log", "2\n");
                rig.rename("0.log", R1);
                rig.write("0.log", "NCCL 3\n");
            },
            &["NCCL 2", "NCCL 3"],
            0,
        ),
        (
            "rotated and packed",
            |rig| {
                rig.write("0.log", "2\n");
                rig.rename("0.log", R1);
                rig.write("0.log", "NCCL 3\n");
                rig.rename("0.log", R2);
                rig.write("0.log", "NCCL 4\n");
                rig.pack(R1);
            },
            &["NCCL 2", "NCCL 3", "NCCL 4"],
            0,
        ),
        (
            "rotated away",
            |rig| {
                rig.remove("0.log");
                rig.write(R2, "NCCL 3\n");
                rig.write("0.log", "NCCL 4\n");
            },
            &["NCCL 3", "NCCL 4"],
            1,
        ),
        (
            "copied to another inode",
            |rig| {
                fs::copy(rig.path("0.log"), rig.path("x")).unwrap();
                rig.rename("x", "0.log");
                rig.write("0.log", "2\n");
            },
            &["NCCL 2"],
            0,
        ),
        (
            "another file, maybe with the same inode",
            |rig| {
                rig.remove("0.log");
                rig.write("0.log", "NCCL 5 and more\n");
            },
            &["NCCL 5 and more"],
            1,
        ),
        (
            "restarted twice",
            |rig| {
                rig.write("0.log", "2\n");
                rig.write("1.log", "NCCL 3\n");
                rig.write("2.log", "NCCL 4\n");
            },
            &["NCCL 2", "NCCL 3", "NCCL 4"],
            0,
        ),
        (
            "restarted, the old log removed",
            |rig| {
                rig.remove("0.log");
                rig.write("1.log", "NCCL 3\n");
            },
            &["NCCL 3"],
            1,
        ),
        (
            "the pod is gone",
            |rig| fs::remove_dir_all(rig.path("0.log").parent().unwrap()).unwrap(),
            &[],
            0,
        ),
    ];
    for (case, away, want, lost) in cases {
        let mut rig = Rig::new(|_| {});
        rig.write("0.log", "NCCL 1 of a log that is known by this\nNCCL ");
        rig.settle();
        assert_eq!(rig.lines().len(), 1, "{case}");
        rig.restart();
        away(&rig);
        rig.settle();
        assert_eq!(rig.lines(), *want, "{case}");
        assert_eq!(rig.came.lost.len(), *lost, "{case}");
        // And no second restart changes that.
        rig.restart();
        rig.settle();
        assert_eq!(rig.lines(), [""; 0], "{case}");
    }
}

#[test]
fn a_restart_while_a_packed_file_is_read_goes_on_within_it() {
    let mut rig = Rig::new(|options| {
        options.share = 64;
        options.buffer = 64;
        options.longest_line = 32;
        options.backlog = 1;
    });
    rig.poll();
    let lines: Vec<String> = (0..200).map(|n| format!("NCCL {n}")).collect();
    rig.write(R1, &(lines.join("\n") + "\n"));
    rig.pack(R1);
    rig.write("0.log", "NCCL end\n");
    let mut came = Vec::new();
    for _ in 0..400 {
        rig.poll();
        came.append(&mut rig.lines());
        rig.restart();
    }
    rig.settle();
    came.append(&mut rig.lines());
    assert_eq!(came[..200], lines[..]);
    assert_eq!(came[200..], ["NCCL end"]);
    assert_eq!(rig.came.lost, [0; 0]);
}

#[test]
fn the_state_keeps_marks_of_containers_that_were_not_seen_yet() {
    let mut rig = Rig::new(|_| {});
    rig.write("0.log", "NCCL 1\n");
    rig.settle();
    let before = rig.follower.state();
    assert_eq!(before.logs.len(), 1);
    let pods = rig.dir.path().join("var/log/pods");
    let aside = rig.dir.path().join("aside");
    fs::rename(&pods, &aside).unwrap();
    rig.restart();
    rig.poll();
    assert_eq!(rig.follower.state(), before);
    fs::rename(&aside, &pods).unwrap();
    rig.settle();
    assert_eq!(rig.follower.state(), before);
    assert_eq!(rig.lines(), ["NCCL 1"]);
}
