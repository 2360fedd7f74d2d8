//! How tests of the real binary end its tasks. Only builds with debug assertions have it: the file that
//! the variable `TASK_FAULTS` names holds `TASK panic`, `TASK hang` or `TASK go`, and is removed once
//! read.

use super::{Arc, Duration, Mutex, Task, lock};

#[expect(clippy::disallowed_methods, reason = "a file of the tests")]
pub(super) fn take(tasks: &[Arc<Task>]) {
    let Some(file) = std::env::var_os("TASK_FAULTS") else {
        return;
    };
    let Ok(text) = std::fs::read_to_string(&file) else {
        return;
    };
    let _ = std::fs::remove_file(&file);
    let (name, fault) = text.trim().split_once(' ').unwrap_or_default();
    for task in tasks.iter().filter(|task| task.row.name == name) {
        *lock(&task.fault) = fault.into();
    }
}

pub(super) fn meet(fault: &Mutex<String>) {
    let asked = |wanted: &str| *lock(fault) == wanted;
    if asked("panic") {
        lock(fault).clear();
        std::panic::panic_any("a test ends this task");
    }
    while asked("hang") {
        std::thread::sleep(Duration::from_millis(20));
    }
}
