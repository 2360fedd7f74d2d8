//! The runbooks, inside the binary: a cluster without a way out has them, too. Alerts, findings and
//! the page at `/` lead to the same one.

use crate::data_files::embedded;
use std::{collections::BTreeMap, sync::LazyLock};

/// A page of the runbooks, about an alert or about the reasons of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runbook {
    /// Name of the page; of its alert, too, where it has one of its own.
    pub name: &'static str,
    /// The page, in Markdown that reads well as it is.
    pub text: &'static str,
}

/// List of all pages.
pub const INDEX: Runbook = Runbook {
    name: "README",
    text: include_str!("../../docs/runbooks/README.md"),
};

impl Runbook {
    /// Whether it is the list.
    pub fn is_index(&self) -> bool {
        self.name == INDEX.name
    }

    /// Reasons of findings that it is about; none where the alert is about something else.
    pub fn reasons(&self) -> &'static [&'static str] {
        static ALL: LazyLock<BTreeMap<&str, Vec<&str>>> =
            LazyLock::new(|| embedded(include_str!("runbooks.toml")));
        ALL.get(self.name).map_or(&[], Vec::as_slice)
    }

    /// What a browser's tab calls it.
    pub fn title(&self) -> &'static str {
        match self.is_index() {
            true => "Runbooks",
            false => self.name,
        }
    }

    /// Where it is served for reading.
    pub fn address(&self) -> String {
        match self.is_index() {
            true => "/runbooks".into(),
            false => format!("/runbooks/{}", self.name),
        }
    }

    /// Where it is served as plain text.
    pub fn plain_address(&self) -> String {
        format!("/runbooks/{}.md", self.name)
    }
}

macro_rules! runbooks {
    ($($name:ident)*) => {
        /// All pages.
        pub const RUNBOOKS: &[Runbook] = &[$(Runbook {
            name: stringify!($name),
            text: include_str!(concat!("../../docs/runbooks/", stringify!($name), ".md")),
        }),*];
    };
}

runbooks! {
    SelvageFabricUnknown SelvageGroupFailing SelvageFabricUnreadyShare SelvageNodeDrift
    SelvageRailMiswired SelvageRailDown SelvageDeviceMissing SelvageWrongLinkLayer
    SelvageLinkFlapping SelvageRateBelowPeers SelvageLinkErrors SelvageCountersBlind SelvageGidTable
    SelvageRetransmission SelvagePfcPauseStorm SelvageLosslessDiscards SelvagePfcMisconfigured
    SelvageCnpSurge SelvageGpuMissing SelvageXidFatal SelvageXidHardware SelvageXidUnknown
    SelvageXidApplication SelvageNvswitchError SelvagePcieDegraded SelvageGpuDirectMissing
    SelvageGpuDirectSlow SelvageGdsMissing SelvageNicHealth SelvageNicTemperature SelvageCable
    SelvageNcclTcpFallback SelvageNcclFallbackRepeats SelvageNcclSuspect SelvageNcclGpuDirectOff
    SelvageNcclInitHang SelvageNcclNoRdma SelvageResourceMismatch SelvageTaintWithheld
    SelvageNodeNotTold SelvageAgentDown SelvageAgentAbsent SelvageSourceStalled SelvageKernelLogLost
    SelvageCertificateExpiry
}

/// Name of the page about a finding's reason.
pub fn page_of(reason: &str) -> Option<&'static str> {
    let mut pages = RUNBOOKS.iter();
    Some(pages.find(|page| page.reasons().contains(&reason))?.name)
}

/// The page of a name as the pages' own links have it, without `.md`, or of a finding's reason, as
/// alerts about findings have it; the list for none.
pub fn find(name: &str) -> Option<Runbook> {
    let about = |page: &&Runbook| page.name == name || page.reasons().contains(&name);
    match name {
        "" | "README" => Some(INDEX),
        _ => RUNBOOKS.iter().find(about).copied(),
    }
}

/// A page and how it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A browser asked: the page as HTML.
    Html(Runbook),
    /// With `.md`: as it was written, which reads well in a terminal.
    Plain(&'static str),
}

/// What a path asks for: `/runbooks` lists them, `/runbooks/SelvageRailDown` is one, and
/// `/runbooks/SelvageRailDown.md` is its text.
pub fn at(path: &str) -> Option<Asked> {
    let name = match path {
        "/runbooks" => "",
        path => path.strip_prefix("/runbooks/")?,
    };
    match name.strip_suffix(".md") {
        Some("") => None,
        Some(name) => find(name).map(|page| Asked::Plain(page.text)),
        None => find(name).map(Asked::Html),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_its_one_page() {
        let reasons = check::CHECKS.iter().flat_map(|check| check.reasons());
        let without: Vec<&str> = reasons
            .map(|doc| doc.reason.as_str())
            .filter(|reason| page_of(reason).is_none())
            .collect();
        assert!(
            without.is_empty(),
            "without a runbook: {without:?}; name each in runbooks.toml, tell of it on its page, and name a new page in `runbooks!`"
        );
        let all: Vec<&str> = RUNBOOKS
            .iter()
            .flat_map(Runbook::reasons)
            .copied()
            .collect();
        let different: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), different.len());
    }

    #[test]
    fn names_lead_to_pages() {
        let page = find("SelvageRailDown").unwrap();
        assert!(page.text.starts_with("# SelvageRailDown"));
        let index = find("").unwrap();
        for (path, want) in [
            ("/runbooks", Some(Asked::Html(index))),
            ("/runbooks/", Some(Asked::Html(index))),
            ("/runbooks/README", Some(Asked::Html(index))),
            ("/runbooks/README.md", Some(Asked::Plain(INDEX.text))),
            ("/runbooks/SelvageRailDown", Some(Asked::Html(page))),
            (
                "/runbooks/SelvageRailDown.md",
                Some(Asked::Plain(page.text)),
            ),
            ("/runbooks/LinkDown", Some(Asked::Html(page))),
            ("/runbooks/SelvageRailDown.md.md", None),
            ("/runbooks/.md", None),
            ("/runbooks/../etc/passwd", None),
            ("/runbooksX", None),
            ("/", None),
        ] {
            assert_eq!(at(path), want, "{path}");
        }
        for page in [page, index] {
            assert_eq!(at(&page.address()), Some(Asked::Html(page)));
            assert_eq!(at(&page.plain_address()), Some(Asked::Plain(page.text)));
        }
    }

    #[test]
    fn pages_are_about_reasons_that_exist() {
        let known: BTreeSet<&str> = check::CHECKS
            .iter()
            .flat_map(|check| check.reasons())
            .map(|doc| doc.reason.as_str())
            .chain(
                crate::check::verdict_docs()
                    .iter()
                    .map(|doc| doc.reason.as_str()),
            )
            .collect();
        for page in RUNBOOKS {
            for reason in page.reasons() {
                assert!(known.contains(reason), "{}: {reason}", page.name);
            }
        }
    }
}
