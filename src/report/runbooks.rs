//! The runbooks, inside the binary: a cluster without a way out has them, too. Alerts, findings and
//! the page at `/` lead to the same one.

/// A page of the runbooks, about an alert or about the reasons of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runbook {
    /// Name of the page; of its alert, too, where it has one of its own.
    pub name: &'static str,
    /// Reasons of findings that it is about; none where the alert is about something else.
    pub reasons: &'static [&'static str],
    /// The page, in Markdown that reads well as it is.
    pub text: &'static str,
}

/// List of all pages.
pub const INDEX: Runbook = Runbook {
    name: "README",
    reasons: &[],
    text: include_str!("../../docs/runbooks/README.md"),
};

impl Runbook {
    /// Whether it is the list.
    pub fn is_index(&self) -> bool {
        self.name == INDEX.name
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
    ($($name:literal [$($reason:literal)*])*) => {
        /// All pages.
        pub const RUNBOOKS: &[Runbook] = &[$(Runbook {
            name: $name,
            reasons: &[$($reason),*],
            text: include_str!(concat!("../../docs/runbooks/", $name, ".md")),
        }),*];
    };
}

runbooks! {
    "SelvageFabricUnknown" ["NoFabric" "NotAFabricNode" "NoData" "NoActiveRail" "Starting" "Settling" "NeverUp" "LinkUnproven" "StateUnreadable" "RateUnreadable" "GidsUnreadable" "BusUnreadable" "PciUnreadable" "GpuDirectUnknown" "GdsUnreadable"]
    "SelvageGroupFailing" []
    "SelvageFabricUnreadyShare" []
    "SelvageNodeDrift" []
    "SelvageRailMiswired" ["NeighborChanged"]
    "SelvageRailDown" ["SubnetManagerAway" "RailsDownTogether" "CardLinksDown" "LinkDown" "LinkInit" "PhysDisabled" "BondLegDown" "PortNotAuthenticated" "NoLid" "NoUverbs" "NoPartition"]
    "SelvageDeviceMissing" ["RailVanished" "RailMoved" "DeviceVanished" "MissingRail" "NicFellOff" "RailWithoutDriver"]
    "SelvageWrongLinkLayer" ["WrongLinkLayer" "PartitionLimited" "AllRailsLimited" "PartitionDiffers" "LidChanged" "SubnetManagerChanged"]
    "SelvageLinkFlapping" ["LinkFlapping" "LinkUnstable"]
    "SelvageRateBelowPeers" ["RateBelowExpected" "RateBelowPeers" "LaneWidthReduced" "RateBelowBest" "MtuReduced" "RateBelowNominal"]
    "SelvageLinkErrors" ["SymbolErrors" "LinkRecoveries" "ReceiveErrors" "LinkIntegrityErrors" "BufferOverruns" "ConstraintErrors" "ChecksumErrors" "CorrectedBitsHigh"]
    "SelvageCountersBlind" ["CounterSaturated" "CountersRefused"]
    "SelvageGidTable" ["NoRoceV2Gid" "GidLost" "OnlyLinkLocalGid" "SubnetShared" "IpSettingsDiffer"]
    "SelvageRetransmission" ["PacketLoss" "OutOfOrder" "AckTimeouts" "RetriesExceeded" "EfaRetransmissions" "EfaRemoteImpaired" "EfaReceiveDrops" "NcclRailErrors"]
    "SelvagePfcPauseStorm" ["PfcStorm" "PfcPressure" "PauseStormEvent"]
    "SelvageLosslessDiscards" ["LosslessDrops" "PortDrops"]
    "SelvagePfcMisconfigured" ["RoceOnLossyPriority" "PfcNotEnabled" "PfcDiffers" "TrustDiffers" "EtsDiffers"]
    "SelvageCnpSurge" ["CongestionNotifications" "CongestionNotificationsIgnored"]
    "SelvageGpuMissing" ["GpuVanished" "MissingGpu" "GpuFellOff" "GpuNotOnBus" "GpuNotDriven" "GpuInitFailed"]
    "SelvageXidFatal" ["XidFatal" "GpuRecoveryRequired"]
    "SelvageXidHardware" ["XidDegraded"]
    "SelvageXidUnknown" ["XidUnknown"]
    "SelvageXidApplication" ["XidStorm"]
    "SelvageNvswitchError" ["SxidFatal" "SxidNonfatal"]
    "SelvagePcieDegraded" ["PcieWidthReduced" "PcieSpeedReduced" "PciePathTooSlow" "PcieErrors" "PcieCorrectedErrors"]
    "SelvageGpuDirectMissing" ["GpuDirectPathMissing" "PeermemNotRegistered" "PeermemError" "DmabufRefused" "GpuDriverAbsent"]
    "SelvageGpuDirectSlow" ["IommuTranslates" "AcsRedirects"]
    "SelvageGdsMissing" ["GdsMissing" "GdsErrors"]
    "SelvageNicHealth" ["NicHealthCompromised" "NicFatalError" "NicHealthIssue" "NicCommandTimeout" "NicQueueTimeout" "NicPower" "AdminCommandsLost"]
    "SelvageNicTemperature" ["NicTemperature"]
    "SelvageCable" ["NicModuleFault" "NicCableUnplugged"]
    "SelvageNcclTcpFallback" ["NcclTcpFallback"]
    "SelvageNcclFallbackRepeats" ["NcclFallbackRepeats"]
    "SelvageNcclSuspect" ["NcclSuspect"]
    "SelvageNcclGpuDirectOff" []
    "SelvageNcclInitHang" ["NcclInitHang"]
    "SelvageNcclNoRdma" ["NoRdmaRequested" "TcpxoDaemonMissing" "TcpxoDaemonDown"]
    "SelvageResourceMismatch" ["FewerDevicesThanPromised" "ResourceMissing" "ResourceFewerThanDevices" "ResourceMoreThanDevices" "ResourceRatio" "GpuResourceMismatch" "VfsWithoutVerbs" "VfLinkDisabled"]
    "SelvageTaintWithheld" []
    "SelvageNodeNotTold" []
    "SelvageAgentDown" []
    "SelvageAgentAbsent" []
    "SelvageSourceStalled" ["SourceStalled" "SourceFailing"]
    "SelvageKernelLogLost" ["KernelLogLost" "KernelLogBlind"]
    "SelvageCertificateExpiry" []
}

/// Name of the page about a finding's reason.
pub fn page_of(reason: &str) -> Option<&'static str> {
    let mut pages = RUNBOOKS.iter();
    Some(pages.find(|page| page.reasons.contains(&reason))?.name)
}

/// The page of a name as the pages' own links have it, without `.md`, or of a finding's reason, as
/// alerts about findings have it; the list for none.
pub fn find(name: &str) -> Option<Runbook> {
    let about = |page: &&Runbook| page.name == name || page.reasons.contains(&name);
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
    let rest = path.strip_prefix("/runbooks")?;
    let name = match rest.strip_prefix('/') {
        Some(name) => name,
        None if rest.is_empty() => "",
        None => return None,
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
        let reasons = check::CHECKS.iter().flat_map(|check| check.reasons);
        let without: Vec<&str> = reasons
            .map(|doc| doc.reason)
            .filter(|reason| page_of(reason).is_none())
            .collect();
        assert!(
            without.is_empty(),
            "without a runbook: {without:?}; name each in a row of RUNBOOKS, and tell of it in docs/runbooks/"
        );
        let all: Vec<&str> = RUNBOOKS
            .iter()
            .flat_map(|page| page.reasons)
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
            .flat_map(|check| check.reasons)
            .map(|doc| doc.reason)
            .chain(crate::readiness::VERDICT_DOCS.iter().map(|doc| doc.reason))
            .collect();
        for page in RUNBOOKS {
            for reason in page.reasons {
                assert!(known.contains(reason), "{}: {reason}", page.name);
            }
        }
    }
}
