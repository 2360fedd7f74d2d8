use super::*;
use std::sync::mpsc;

/// Far longer than anything here takes; only a failure waits for it.
const BOUND: Duration = Duration::from_secs(30);

type Work = Box<dyn FnOnce() -> u32 + Send>;

fn job(urgent: bool, vital: bool, work: Work) -> ReadJob<u32> {
    ReadJob {
        urgent,
        vital,
        work,
    }
}

fn quick(n: u32) -> ReadJob<u32> {
    job(false, false, Box::new(move || n))
}

fn vital(job: ReadJob<u32>) -> ReadJob<u32> {
    ReadJob { vital: true, ..job }
}

fn hung(n: u32) -> (mpsc::Sender<()>, ReadJob<u32>) {
    let (release, held) = mpsc::channel::<()>();
    let work = move || {
        let _ = held.recv();
        n
    };
    (release, job(false, false, Box::new(work)))
}

async fn results(pool: &mut Pool<u32>, count: usize) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < count {
        tokio::time::timeout(BOUND, pool.news()).await.unwrap();
        all.extend(pool.take());
    }
    all.sort_unstable();
    all
}

fn workers<R: Send + 'static>(pool: &Pool<R>) -> usize {
    lock(&pool.shared.state).workers
}

#[tokio::test]
async fn hung_reads_do_not_hold_up_others() {
    let mut pool = Pool::default();
    let (releases, mut work): (Vec<_>, Vec<_>) = (100..107).map(hung).unzip();
    work.extend((0..5).map(quick));
    pool.submit(Millis(0), work);
    // Each step of the sampler's timer doubles the workers: 1, 2, 4, 8.
    for step in 1..=3 {
        assert_eq!(pool.next_attention(), Some(Millis(20 * step)));
        pool.attend(Millis(20 * step - 1));
        pool.attend(Millis(20 * step));
    }
    assert_eq!(results(&mut pool, 5).await, [0, 1, 2, 3, 4]);
    assert_eq!(pool.next_attention(), None, "nothing waits");
    pool.submit(Millis(1000), [quick(9)]);
    assert_eq!(results(&mut pool, 1).await, [9]);
    drop(releases);
    assert_eq!(results(&mut pool, 7).await, Vec::from_iter(100..107));
}

#[tokio::test]
async fn one_thread_does_it_all_while_nothing_hangs() {
    let mut pool = Pool::default();
    for round in 0..20 {
        pool.submit(Millis(round), (0..50).map(quick));
        // One more where the last one has not ended yet.
        assert!(workers(&pool) <= 2);
        results(&mut pool, 50).await;
    }
}

#[tokio::test]
async fn urgent_work_goes_first() {
    let mut pool = Pool::default();
    let (order, seen) = mpsc::channel();
    let note = |name: &'static str| -> Work {
        let order = order.clone();
        Box::new(move || {
            let _ = order.send(name);
            1
        })
    };
    // In one submission, for which there is one worker: two would take turns by chance.
    pool.submit(
        Millis(0),
        [
            job(false, false, note("other")),
            job(false, true, note("vital")),
            job(true, false, note("urgent")),
        ],
    );
    results(&mut pool, 3).await;
    let order: Vec<_> = seen.try_iter().collect();
    assert_eq!(order, ["urgent", "vital", "other"]);
}

#[tokio::test]
async fn a_panic_costs_its_own_result_only() {
    let mut pool = Pool::default();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panics: Work = Box::new(|| panic!("a bug"));
    pool.submit(Millis(0), [job(false, false, panics), quick(1)]);
    assert_eq!(results(&mut pool, 1).await, [1]);
    std::panic::set_hook(hook);
}

#[tokio::test]
async fn results_do_not_wait_behind_a_read_that_hangs() {
    let mut pool = Pool::default();
    let (_release, last) = hung(0);
    pool.submit(Millis(0), [quick(1), last]);
    // The quick one's result may be held back for a batch; the timer fetches it.
    let at = pool.next_attention().unwrap();
    let end = std::time::Duration::from_millis(1);
    let mut got = Vec::new();
    while got.is_empty() {
        let _ = tokio::time::timeout(end, pool.news()).await;
        pool.attend(at);
        got = pool.take();
    }
    assert_eq!(got, [1]);
}

#[tokio::test]
async fn what_hangs_leaves_threads_to_what_is_vital() {
    let mut pool = Pool::default();
    let (releases, work): (Vec<_>, Vec<_>) = (100..200).map(hung).unzip();
    pool.submit(Millis(0), work);
    for step in 1..20 {
        pool.attend(Millis(20 * step));
    }
    assert_eq!(
        pool.next_attention(),
        None,
        "no wake-ups for jobs that cannot be started"
    );
    for round in 1..5 {
        let at = Millis(1000 * round);
        pool.submit(at, [vital(quick(9))]);
        pool.attend(at.plus(NEW_WORKER_AFTER));
        assert_eq!(results(&mut pool, 1).await, [9]);
    }
    drop(releases);
    assert_eq!(results(&mut pool, 100).await, Vec::from_iter(100..200));
}

#[tokio::test]
async fn with_every_worker_stuck_nothing_wakes_and_the_first_free_one_goes_on() {
    let mut pool = Pool::default();
    let (mut releases, work): (Vec<_>, Vec<_>) = (100..180).map(hung).unzip();
    pool.submit(Millis(0), work.into_iter().map(vital));
    for step in 1..20 {
        pool.attend(Millis(20 * step));
    }
    assert_eq!(pool.next_attention(), None);
    assert_eq!(workers(&pool), MAX_WORKERS);
    pool.submit(Millis(1000), [vital(quick(9))]);
    pool.attend(Millis(1020));
    assert_eq!(pool.next_attention(), None);
    releases.truncate(40);
    let mut got = results(&mut pool, 41).await;
    got.retain(|n| *n == 9);
    assert_eq!(got, [9]);
}

#[tokio::test]
async fn threads_end_with_the_pool() {
    let mut pool = Pool::default();
    pool.submit(Millis(0), [quick(1)]);
    results(&mut pool, 1).await;
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    let ended = tokio::task::spawn_blocking(move || {
        while shared.strong_count() > 0 {
            std::thread::yield_now();
        }
    });
    tokio::time::timeout(BOUND, ended).await.unwrap().unwrap();
}
