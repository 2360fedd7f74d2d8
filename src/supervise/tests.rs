use super::*;
use std::sync::atomic::AtomicUsize;

const ROW: TaskSpec = TaskSpec::new("row", 10, true);

/// What a task does each time it is started.
#[derive(Debug, Clone, Copy)]
enum Play {
    CannotStart,
    Panics,
    Runs,
    Ends,
    Hangs,
}

fn play(supervisor: &Supervisor, row: TaskSpec, script: &'static [Play]) {
    let starts = AtomicUsize::new(0);
    supervisor.task(row, move |task| {
        let start = starts.fetch_add(1, Ordering::Relaxed);
        let play = script.get(start).or(script.last()).copied();
        async move {
            match play.unwrap() {
                Play::CannotStart => return Err(io::ErrorKind::WouldBlock.into()),
                Play::Panics => panic!("a test's panic"),
                Play::Ends => {}
                Play::Runs => task.beating(std::future::pending::<()>()).await,
                Play::Hangs => {
                    task.beat();
                    std::future::pending::<()>().await;
                }
            }
            Ok(())
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_task_is_started_again_until_it_ends_well_or_panics_too_often() {
    use Play::*;
    for (script, up, panics, failed) in [
        (&[Runs][..], Some(true), 0, false),
        (
            &[CannotStart, CannotStart, CannotStart, Runs],
            Some(true),
            0,
            false,
        ),
        (&[CannotStart], Some(false), 0, false),
        (&[Panics, Runs], Some(true), 1, false),
        (
            &[Panics, Panics, Panics, Panics, Runs],
            Some(true),
            4,
            false,
        ),
        (&[Panics], Some(false), 5, true),
        (&[CannotStart, Panics, Ends], None, 0, false),
        (&[Hangs], Some(false), 0, false),
    ] {
        let supervisor = Supervisor::new(Duration::from_secs(5));
        play(&supervisor, ROW, script);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let status = supervisor.status();
        let found = status.first().map(|task| task.up);
        assert_eq!(found, up, "{script:?}");
        if let Some(task) = status.first() {
            assert_eq!((task.name, task.panics), ("row", panics), "{script:?}");
        }
        let why = tokio::time::timeout(TICK, supervisor.failed()).await;
        assert_eq!(why.is_ok(), failed, "{script:?}");
        assert!(why.is_err() || why.unwrap().contains("task row panicked 5 times"));
    }
}

#[tokio::test(start_paused = true)]
async fn panics_that_lie_far_apart_do_not_end_the_process() {
    let supervisor = Supervisor::new(Duration::from_secs(5));
    supervisor.task(ROW, |task| async move {
        task.beating(tokio::time::sleep(PANICS.1)).await;
        panic!("a test's panic");
    });
    let long = tokio::time::timeout(PANICS.1 * 20, supervisor.failed()).await;
    assert!(long.is_err(), "{long:?}");
    assert!(supervisor.status()[0].panics > 15);
}

#[tokio::test(start_paused = true)]
async fn a_silent_task_is_not_up_and_then_unhealthy_where_a_restart_helps() {
    let disk = TaskSpec::new("disk", 10, false);
    let supervisor = Supervisor::new(Duration::from_secs(5));
    play(&supervisor, ROW, &[Play::Hangs]);
    play(&supervisor, disk, &[Play::Hangs]);
    let mut waited = 0;
    for (until, up, unhealthy) in [
        (5, true, None),
        (9, true, None),
        (13, false, None),
        (65, false, None),
        // The limit of its own, and 12 deadlines.
        (75, false, Some("row")),
    ] {
        tokio::time::sleep(Duration::from_secs(until - waited)).await;
        waited = until;
        assert!(
            supervisor.status().iter().all(|task| task.up == up),
            "{until}"
        );
        assert_eq!(supervisor.silent(disk).is_none(), up, "{until}");
        assert_eq!(supervisor.unhealthy(), unhealthy, "{until}");
    }
}

#[tokio::test]
async fn a_thread_that_panics_is_started_again_and_its_end_is_waited_for() {
    let supervisor = Supervisor::new(Duration::from_secs(5));
    let starts = AtomicUsize::new(0);
    supervisor.thread(ROW, 64 * 1024, move |task| {
        task.beat();
        assert!(starts.fetch_add(1, Ordering::Relaxed) > 0, "a test's panic");
        Ok(())
    });
    let ended = tokio::time::timeout(Duration::from_secs(30), supervisor.ended(ROW));
    assert!(ended.await.is_ok() && supervisor.status().is_empty());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_name_are_shown_as_one() {
    let supervisor = Supervisor::new(Duration::from_secs(5));
    play(&supervisor, ROW, &[Play::Panics, Play::Runs]);
    play(&supervisor, ROW, &[Play::Panics, Play::Runs]);
    let status = |up, panics| TaskStatus {
        name: ROW.name,
        up,
        panics,
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(supervisor.status(), [status(true, 2)]);
    play(&supervisor, ROW, &[Play::Hangs]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(supervisor.status(), [status(false, 2)]);
}
