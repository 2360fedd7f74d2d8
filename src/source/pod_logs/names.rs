//! What the names below `/var/log/pods` mean.

use crate::observe::ContainerKey;
use std::cmp::Reverse;

/// A pod by its directory, `NAMESPACE_POD_UID`; no container. None of the three holds `_` (DNS labels and
/// UUIDs; a static pod's is a hash).
pub(crate) fn pod_dir(name: &str) -> Option<ContainerKey> {
    let parts: Vec<&str> = name.split('_').collect();
    let &[namespace, pod, uid] = parts.as_slice() else {
        return None;
    };
    (!parts.contains(&"")).then(|| ContainerKey {
        namespace: namespace.into(),
        pod: pod.into(),
        uid: uid.into(),
        ..ContainerKey::default()
    })
}

/// Where a file stands among those of one restart, by what follows the log's name; older sorts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Age {
    /// Rotated by the kubelet: `.20241114-101112`, local time, as one number.
    Stamp(u64),
    /// Rotated by Docker: `.1` is the youngest.
    Number(Reverse<u32>),
    /// The log itself.
    Live,
}

/// A log's restart number, and what follows `.log`: `3.log.20241114-101112.gz` is 3 with the rest.
pub(super) fn log(name: &str) -> Option<(u32, &str)> {
    let (number, rest) = name.split_once(".log")?;
    Some((decimal(number)?, rest))
}

/// What follows a log's name: its age, and whether it is compressed. `None` for the kubelet's
/// unfinished `.tmp`.
pub(super) fn suffix(rest: &str) -> Option<(Age, bool)> {
    let Some(rest) = rest.strip_prefix('.') else {
        return rest.is_empty().then_some((Age::Live, false));
    };
    let unpacked = rest.strip_suffix(".gz");
    let (rest, compressed) = (unpacked.unwrap_or(rest), unpacked.is_some());
    let age = match rest.split_once('-') {
        Some((day, time)) if day.len() == 8 && time.len() == 6 => {
            Age::Stamp(u64::from(decimal(day)?) * 1_000_000 + u64::from(decimal(time)?))
        }
        Some(_) => return None,
        None => Age::Number(Reverse(decimal(rest)?)),
    };
    Some((age, compressed))
}

fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_directories() {
        let uid = "6f0b7a53-57de-4a7e-9f2c-1f1b7ad37c11";
        let full = format!("train_job-worker-0_{uid}");
        assert_eq!(
            pod_dir(&full),
            Some(ContainerKey {
                namespace: "train".into(),
                pod: "job-worker-0".into(),
                uid: uid.into(),
                ..ContainerKey::default()
            })
        );
        for odd in ["", "a", "a_b", "a_b_c_d", "_b_c", "a__c", "a_b_", "___"] {
            assert_eq!(pod_dir(odd), None, "{odd}");
        }
    }

    #[test]
    fn log_files() {
        for (name, want) in [
            ("0.log", Some((0, Some((Age::Live, false))))),
            ("12.log", Some((12, Some((Age::Live, false))))),
            (
                "0.log.20241114-101112",
                Some((0, Some((Age::Stamp(20_241_114_101_112), false)))),
            ),
            (
                "7.log.20241114-101112.gz",
                Some((7, Some((Age::Stamp(20_241_114_101_112), true)))),
            ),
            ("0.log.20241114-101112.tmp", Some((0, None))),
            ("0.log.20241114-101112.gz.tmp", Some((0, None))),
            ("0.log.1", Some((0, Some((Age::Number(Reverse(1)), false))))),
            (
                "0.log.2.gz",
                Some((0, Some((Age::Number(Reverse(2)), true)))),
            ),
            ("0.log.", Some((0, None))),
            ("0.log.gz", Some((0, None))),
            ("0.logs", Some((0, None))),
            ("0.log.2024-101112", Some((0, None))),
            ("x.log", None),
            ("+1.log", None),
            (".log", None),
            ("99999999999.log", None),
            ("0.txt", None),
        ] {
            let got = log(name).map(|(number, rest)| (number, suffix(rest)));
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn older_files_sort_first() {
        let order = [
            Age::Stamp(20_241_114_101_112),
            Age::Stamp(20_241_114_101_113),
            Age::Number(Reverse(3)),
            Age::Number(Reverse(1)),
            Age::Live,
        ];
        assert!(order.is_sorted());
    }
}
