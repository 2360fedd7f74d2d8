//! The report without what pods are called and what they wrote: for clients of which nothing proves
//! who they are.

use super::{Jobs, Report};
use crate::check::{Check, ReasonDoc, nccl_jobs, nccl_suspect};
use crate::readiness::history::VerdictChange;
use std::sync::Arc;

/// The checks whose findings name pods or quote their logs.
const OF_PODS: [Check; 2] = [nccl_jobs::CHECK, nccl_suspect::CHECK];

impl Report {
    /// The same verdict and findings; of jobs only the numbers.
    pub fn without_tenants(&self) -> Report {
        let mut report = self.clone();
        let jobs = &self.jobs;
        report.jobs = Arc::new(Jobs {
            withheld: true,
            fallbacks_in_a_row: jobs.fallbacks_in_a_row,
            fallback_namespaces: jobs.fallback_namespaces,
            tcp_daemons: jobs.tcp_daemons,
            logs: jobs.logs.clone(),
            ..Jobs::default()
        });
        for (number, finding) in report.findings.iter_mut().enumerate() {
            let Some(doc) = of_pods(finding.check, finding.reason) else {
                continue;
            };
            if names_pod(&finding.subject) {
                finding.key = format!("pod {number}");
            }
            conceal(&mut finding.subject);
            finding.message.clone_from(&doc.meaning);
            finding.remedy = doc.remedy().into();
            finding.evidence.clear();
        }
        let mut history = report.history.to_vec();
        for entry in &mut history {
            if let VerdictChange::Raised { what, .. } | VerdictChange::Cleared { what, .. } =
                &mut entry.change
                && let Some(doc) = of_pods(what.check, what.reason)
            {
                conceal(&mut what.subject);
                if let VerdictChange::Raised { message, .. } = &mut entry.change {
                    message.clone_from(&doc.meaning);
                }
            }
        }
        report.history = history.into();
        report
    }
}

/// The words for a finding of a check that speaks of pods.
fn of_pods(check: &str, reason: &str) -> Option<&'static ReasonDoc> {
    let of = OF_PODS.iter().find(|of| of.id == check)?;
    of.reasons().iter().find(|doc| doc.reason == reason)
}

/// Whether it is not a port (`mlx5_0/1`) or the node.
fn names_pod(subject: &str) -> bool {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let port = (subject.split_once('/')).is_some_and(|(_, port)| number(port));
    subject != "node" && !port
}

fn conceal(subject: &mut String) {
    if names_pod(subject) {
        *subject = "a pod".into();
    }
}
