use super::*;

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
