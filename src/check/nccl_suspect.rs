//! Pods that move a job's bytes by TCP, by [`suspect`](super::suspect).

use super::{Candidate, Context, Timing, suspect::SuspectState};

// Believed at once: it rests on what was seen for long enough.
check!(nccl_suspect, run, Timing::default());

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let all = context.jobs.iter().flat_map(|jobs| jobs.suspects.values());
    let suspects = all.filter(|pod| pod.state == SuspectState::Suspect);
    let found = suspects.map(|pod| Candidate {
        evidence: pod.evidence.clone(),
        ..context.candidate("NcclSuspect", (&pod.uid, pod.subject()), &pod.message)
    });
    found.collect()
}
