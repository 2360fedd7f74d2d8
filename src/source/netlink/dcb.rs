//! DCB settings of an interface (net/dcb/dcbnl.c, include/uapi/linux/dcbnl.h), only read. Counts in
//! there are stale on mlx5 and left alone.

use super::{Attrs, NetlinkError, Reply, Request, route, u16_at};
use crate::observe::{DcbFacts, Reading, Trust};
use nix::libc::RTM_GETDCB;

const DCB_CMD_IEEE_GET: u8 = 21;

const DCB_ATTR_IEEE: u16 = 13;

const IEEE_ETS: u16 = 1;
const IEEE_PFC: u16 = 2;
const IEEE_APP_TABLE: u16 = 3;
const DCB_APP_TRUST_TABLE: u16 = 11;

/// DCB_ATTR_IEEE_APP: an entry of the APP table.
const IEEE_APP: u16 = 1;
/// IEEE_8021QAZ_APP_SEL_DSCP: the entry maps a DSCP value.
const SELECTOR_DSCP: u8 = 5;
/// DCB_APP_SEL_PCP: the entry maps a VLAN priority.
const SELECTOR_PCP: u8 = 255;

/// Reads the settings; not observable where the driver has none to tell (virtual functions, EFA,
/// gve, software devices).
pub fn read(ifname: &str) -> Reading<DcbFacts> {
    let request = Request::new(RTM_GETDCB, 0)
        .header(&[0, DCB_CMD_IEEE_GET, 0, 0])
        .text(route::DCB_ATTR_IFNAME, ifname);
    let parse = |payload: &[u8]| facts(payload).map(Some);
    route::ask(("dcb", ifname), request, RTM_GETDCB, parse)
}

/// Parses the answer to DCB_CMD_IEEE_GET.
pub fn facts(payload: &[u8]) -> Reply<DcbFacts> {
    let attrs = Attrs::after(payload, route::DCBMSG)?;
    let mut facts = DcbFacts::default();
    let Some(ieee) = attrs.nest(DCB_ATTR_IEEE)? else {
        return Ok(facts);
    };
    if let Some(ets) = ieee.get(IEEE_ETS) {
        // struct ieee_ets: willing, ets_cap, cbs, tc_tx_bw[8], tc_rx_bw[8], tc_tsa[8], prio_tc[8] …
        facts.ets_tc_bandwidth = Some(eight(ets.bytes, 3)?);
        facts.ets_prio_tc = Some(eight(ets.bytes, 27)?);
    }
    if let Some(pfc) = ieee.get(IEEE_PFC) {
        // struct ieee_pfc: pfc_cap, pfc_en, mbc …
        let [_, enabled, ..] = pfc.bytes else {
            return Err(NetlinkError::Malformed("struct ieee_pfc is short"));
        };
        facts.pfc_enabled = Some(*enabled);
    }
    if let Some(table) = ieee.nest(IEEE_APP_TABLE)? {
        for app in table.iter().filter(|attr| attr.id == IEEE_APP) {
            // struct dcb_app: selector, priority, protocol (u16).
            if let ([SELECTOR_DSCP, priority, ..], Some(dscp)) = (app.bytes, u16_at(app.bytes, 2))
                && let Ok(dscp @ 0..64) = u8::try_from(dscp)
            {
                facts.dscp_to_priority.insert(dscp, *priority);
            }
        }
    }
    // The trust table lists selectors, most trusted first; few drivers have one. mlx5 and others
    // trust DSCP from the moment that the APP table maps one. Without either it is unknown.
    let table = ieee.nest(DCB_APP_TRUST_TABLE)?;
    let trusted =
        |selector| table.is_some_and(|table| table.iter().any(|attr| attr.bytes == [selector]));
    facts.trust = if trusted(SELECTOR_DSCP) || !facts.dscp_to_priority.is_empty() {
        Some(Trust::Dscp)
    } else {
        trusted(SELECTOR_PCP).then_some(Trust::Pcp)
    };
    Ok(facts)
}

/// Eight bytes of a structure.
fn eight(bytes: &[u8], at: usize) -> Reply<[u8; 8]> {
    super::array(bytes, at).ok_or(NetlinkError::Malformed("a DCB structure is short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn payload(request: Request) -> Vec<u8> {
        request.finish(0).get(16..).unwrap().to_vec()
    }

    /// A nest's content.
    fn nest(entries: &[(u16, &[u8])]) -> Vec<u8> {
        payload(
            entries
                .iter()
                .fold(Request::new(RTM_GETDCB, 0), |r, (id, v)| r.attr(*id, v)),
        )
    }

    fn answer(ieee: &[(u16, &[u8])]) -> Vec<u8> {
        payload(
            Request::new(RTM_GETDCB, 0)
                .header(&[0, DCB_CMD_IEEE_GET, 0, 0])
                .text(1, "ens3")
                .attr(13, &nest(ieee))
                .attr(14, &[0x0b]),
        )
    }

    #[test]
    fn a_lossless_port() {
        let mut ets = vec![0, 8, 0];
        ets.extend([10, 0, 0, 50, 0, 0, 40, 0]); // tc_tx_bw
        ets.extend([0; 8]); // tc_rx_bw
        ets.extend([2; 8]); // tc_tsa
        ets.extend([0, 1, 2, 3, 4, 5, 6, 7]); // prio_tc
        ets.extend([0; 24]); // recommended values
        assert_eq!(ets.len(), 59);
        let mut pfc = vec![0; 136];
        pfc[0] = 8;
        pfc[1] = 0b1000;
        let app = |selector: u8, priority: u8, protocol: u16| {
            let [a, b] = protocol.to_ne_bytes();
            [selector, priority, a, b]
        };
        let apps = nest(&[
            (1, &app(5, 3, 26)),
            (1, &app(5, 6, 48)),
            (1, &app(1, 3, 0x8915)),
            (1, &app(5, 3, 500)),
        ]);
        let bytes = answer(&[(1, &ets), (2, &pfc), (3, &apps)]);
        assert_eq!(
            facts(&bytes),
            Ok(DcbFacts {
                pfc_enabled: Some(8),
                ets_tc_bandwidth: Some([10, 0, 0, 50, 0, 0, 40, 0]),
                ets_prio_tc: Some([0, 1, 2, 3, 4, 5, 6, 7]),
                dscp_to_priority: BTreeMap::from([(26, 3), (48, 6)]),
                trust: Some(Trust::Dscp),
            })
        );
    }

    #[test]
    fn what_is_not_told_is_none() {
        let got = facts(&answer(&[])).unwrap();
        assert_eq!(got.pfc_enabled, None);
        assert_eq!(got.trust, None);
        // PFC told to be off is a value.
        let got = facts(&answer(&[(2, &[8, 0, 0, 0])])).unwrap();
        assert_eq!(got.pfc_enabled, Some(0));
        let trust = |selectors: &[u8]| {
            let entries: Vec<(u16, &[u8])> = selectors.chunks(1).map(|s| (1, s)).collect();
            facts(&answer(&[(11, &nest(&entries))])).unwrap().trust
        };
        assert_eq!(trust(&[255]), Some(Trust::Pcp));
        assert_eq!(trust(&[5, 255]), Some(Trust::Dscp));
        assert_eq!(trust(&[]), None);
        assert!(facts(&answer(&[(2, &[8])])).is_err());
        assert!(facts(&answer(&[(1, &[0; 20])])).is_err());
    }

    #[test]
    fn the_loopback_has_no_dcb() {
        assert_eq!(read("lo"), Reading::NotObservable);
        assert!(matches!(read("no-such-if0"), Reading::Failed(_)));
        assert_eq!(read("a-name-much-too-long"), Reading::Absent);
    }
}
