use super::*;

fn container(rig: &Rig, pod: &str) -> PathBuf {
    let dir = rig.dir.path().join(format!("var/log/pods/ns_{pod}_u/main"));
    fs::create_dir_all(&dir).unwrap();
    dir.join("0.log")
}

#[test]
fn a_chatty_container_starves_no_other() {
    let mut rig = Rig::new(|options| {
        options.share = 1 << 10;
        options.backlog = 64 << 10;
        options.buffer = 8 << 10;
        options.longest_line = 4 << 10;
    });
    for pod in ["a", "b", "c"] {
        append(&container(&rig, pod), "NCCL first\n");
    }
    rig.poll();
    rig.lines();
    append(&container(&rig, "a"), &"NCCL much\n".repeat(100_000));
    for look in 0..10 {
        append(&container(&rig, "b"), "NCCL b\n");
        append(&container(&rig, "c"), "NCCL c\n");
        let stats = rig.poll();
        assert!(stats.bytes <= (64 << 10) + (9 << 10), "{}", stats.bytes);
        assert_eq!(stats.behind, 1);
        let others = (rig.lines().iter())
            .filter(|line| *line != "NCCL much")
            .count();
        assert_eq!(others, 2, "look {look}");
    }
    // All that lag behind have a part.
    append(&container(&rig, "b"), &"NCCL b\n".repeat(100_000));
    rig.poll();
    rig.lines();
    rig.poll();
    let lines = rig.lines();
    let much = lines.iter().filter(|line| *line == "NCCL much").count();
    assert!(
        much > 1000 && lines.len() - much > 1000,
        "{much} of {}",
        lines.len()
    );
}

#[test]
fn lines_too_long_are_dropped_and_counted_and_nothing_else_is() {
    let long = "x".repeat(5000);
    for (buffer, share) in [(256, 64), (1000, 1000), (64 << 10, 16 << 10)] {
        let mut rig = Rig::new(|options| {
            options.longest_line = 200;
            options.buffer = buffer;
            options.share = share;
        });
        rig.write("0.log", "NCCL 1\n");
        rig.poll();
        rig.write("0.log", &format!("NCCL {long}"));
        let mut dropped = 0;
        for _ in 0..50 {
            dropped += rig.poll().lines_dropped;
        }
        rig.write(
            "0.log",
            &format!(" NCCL {long}\nNCCL 2\nNCCL{long}\nNCCL 3\n"),
        );
        for _ in 0..50 {
            dropped += rig.poll().lines_dropped;
        }
        assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2", "NCCL 3"], "{buffer}");
        assert_eq!(dropped, 2, "{buffer}");
    }
}

#[test]
fn containers_beyond_the_bound_are_left_aside_until_others_go() {
    let mut rig = Rig::new(|options| options.containers = 2);
    for pod in ["a", "b", "c"] {
        append(&container(&rig, pod), "NCCL 1\n");
    }
    let stats = rig.poll();
    assert_eq!(stats.containers, 2);
    fs::remove_dir_all(rig.dir.path().join("var/log/pods/ns_a_u")).unwrap();
    let stats = rig.settle();
    assert_eq!(stats.containers, 2);
    assert_eq!(rig.lines().len(), 3);
}

#[test]
fn descriptors_are_bounded_and_files_at_rest_hold_none() {
    let mut rig = Rig::new(|options| options.open_files = 3);
    for pod in 0..10 {
        append(&container(&rig, &format!("p{pod}")), "NCCL 1\n");
    }
    assert_eq!(rig.poll().open_files, 3);
    assert_eq!(rig.lines().len(), 10);
    assert_eq!(rig.settle().open_files, 0);
    for pod in 0..10 {
        append(&container(&rig, &format!("p{pod}")), "NCCL 2\n");
    }
    rig.settle();
    assert_eq!(rig.lines().len(), 10);
}

#[test]
fn split_lines_come_whole_whatever_the_reads() {
    let text = "\
        2024-05-01T12:00:00.1Z stdout P NC\n\
        2024-05-01T12:00:00.2Z stderr F aside\n\
        2024-05-01T12:00:00.3Z stdout F CL\n\
        2024-05-01T12:00:00.4Z stdout F after\n";
    let mut rig = Rig::new(|options| {
        options.longest_line = 60;
        options.buffer = 61;
        options.share = 40;
    });
    for byte in text.chars() {
        rig.write("0.log", &byte.to_string());
        rig.poll();
    }
    let lines = rig.lines();
    let ends: Vec<&str> = lines.iter().map(|line| &line[23..]).collect();
    assert_eq!(ends, ["stdout P NC", "stderr F aside", "stdout F CL"]);
}
