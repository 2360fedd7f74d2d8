use super::*;

fn awaited() -> Rig {
    Rig::new(|options| {
        options.watch = true;
        // Polling alone would take far too long.
        options.check_every = Duration::from_secs(1 << 30);
    })
}

#[test]
fn a_write_to_a_file_at_rest_wakes() {
    let mut rig = awaited();
    rig.write("0.log", "NCCL 1\n");
    for _ in 0..20 {
        rig.poll();
    }
    let stats = rig.poll();
    assert_eq!((stats.lively, stats.open_files), (0, 0));
    rig.write("0.log", "NCCL 2\n");
    rig.follower.wait(Duration::from_secs(600));
    rig.poll();
    assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2"]);
}

#[test]
fn new_files_containers_and_pods_wake() {
    let mut rig = awaited();
    rig.write("0.log", "NCCL 1\n");
    for _ in 0..20 {
        rig.poll();
    }
    rig.write("1.log", "NCCL 2\n");
    rig.follower.wait(Duration::from_secs(600));
    for _ in 0..20 {
        rig.poll();
    }
    let pods = rig.dir.path().join("var/log/pods");
    for (dir, line) in [
        (pods.join(POD).join("other"), "NCCL 3\n"),
        (pods.join("ns_new_uid/main"), "NCCL 4\n"),
    ] {
        fs::create_dir_all(&dir).unwrap();
        append(&dir.join("0.log"), line);
        rig.follower.wait(Duration::from_secs(600));
        for _ in 0..20 {
            rig.poll();
        }
    }
    assert_eq!(rig.lines(), ["NCCL 1", "NCCL 2", "NCCL 3", "NCCL 4"]);
    assert_eq!(rig.poll().containers, 3);
}

#[test]
fn progress_shows_a_look_that_hangs() {
    struct Slow(std::sync::Arc<Progress>, Option<Duration>);
    impl Sink for Slow {
        fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
            Some(from).filter(|from| *from < chunk.len())
        }
        fn line(&mut self, _: &Container, _: &[u8]) {
            self.1 = self.0.busy_for(Millis(9000));
        }
        fn lost(&mut self, _: &Container, _: u64) {}
        fn gone(&mut self, _: &Container) {}
    }
    let mut rig = Rig::new(|_| {});
    rig.write("0.log", "NCCL 1\n");
    let progress = rig.follower.progress();
    assert_eq!(progress.busy_for(Millis(9000)), None);
    let mut slow = Slow(rig.follower.progress(), None);
    rig.follower.poll(Millis(2000), &mut slow);
    assert_eq!(slow.1, Some(Duration::from_secs(7)));
    assert_eq!(progress.busy_for(Millis(9000)), None);
}
