//! Virtual functions of a network device, by rtnetlink (net/core/rtnetlink.c, include/uapi/linux/
//! if_link.h): the one place where the kernel tells their administrative link state.

use super::{Attrs, NetlinkError, Reply, Request, route, u32_at};
use crate::observe::{Reading, VfLink, VfLinks};
use nix::libc::{
    IFLA_EXT_MASK, IFLA_IFNAME, IFLA_NUM_VF, IFLA_VFINFO_LIST, RTM_GETLINK, RTM_NEWLINK,
};
use std::collections::BTreeMap;

/// IFLA_VF_INFO, the entries of IFLA_VFINFO_LIST.
const IFLA_VF_INFO: u16 = 1;
/// Within IFLA_VF_INFO: struct ifla_vf_link_state { __u32 vf, link_state }.
const IFLA_VF_LINK_STATE: u16 = 5;

/// RTEXT_FILTER_VF: with virtual functions …
const WITH_VFS: u32 = 1;
/// … RTEXT_FILTER_SKIP_STATS: without their counters, which are most of the bytes.
const WITHOUT_STATISTICS: u32 = 1 << 3;

/// Asks for the link states of `ifname`'s virtual functions; not observable where the driver does
/// not tell all of them (virtual functions themselves, representors, more than one answer holds).
pub fn read(ifname: &str) -> Reading<VfLinks> {
    let request = Request::new(RTM_GETLINK, 0)
        .header(&[0; route::IFINFOMSG])
        .text(IFLA_IFNAME, ifname)
        .u32(IFLA_EXT_MASK, WITH_VFS | WITHOUT_STATISTICS);
    let what = ("virtual functions of", ifname);
    route::ask(what, request, RTM_NEWLINK, links)
}

/// Parses an RTM_NEWLINK; none unless it tells every one of IFLA_NUM_VF: a list of more than 64 KiB
/// wraps around its 16-bit length, and functions that the driver cannot ask for are left out.
pub fn links(payload: &[u8]) -> Reply<Option<VfLinks>> {
    // Beyond that length nothing in there can be relied on.
    let may_wrap = payload.len() > usize::from(u16::MAX);
    match told(payload) {
        Err(_) if may_wrap => Ok(None),
        other => other,
    }
}

fn told(payload: &[u8]) -> Reply<Option<VfLinks>> {
    let attrs = Attrs::after(payload, route::IFINFOMSG)?;
    let (Some(count), Some(list)) = (attrs.u32(IFLA_NUM_VF)?, attrs.nest(IFLA_VFINFO_LIST)?) else {
        return Ok(None);
    };
    let mut states = BTreeMap::new();
    for info in list.iter().filter(|attr| attr.id == IFLA_VF_INFO) {
        let Some(state) = Attrs::parse(info.bytes)?.get(IFLA_VF_LINK_STATE) else {
            continue;
        };
        let words = u32_at(state.bytes, 0).zip(u32_at(state.bytes, 4));
        let short = NetlinkError::Malformed("struct ifla_vf_link_state is short");
        let (number, word) = words.ok_or(short)?;
        let word = match word {
            0 => VfLink::Auto,
            1 => VfLink::Enable,
            2 => VfLink::Disable,
            _ => VfLink::Other,
        };
        states.insert(number, word);
    }
    let all = (0..count).eq(states.keys().copied());
    Ok((all && count > 0).then_some(VfLinks { states }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(request: Request) -> Vec<u8> {
        request.finish(0).get(16..).unwrap().to_vec()
    }

    fn nest(entries: &[(u16, &[u8])]) -> Vec<u8> {
        payload(
            entries
                .iter()
                .fold(Request::new(RTM_NEWLINK, 0), |r, (id, v)| r.attr(*id, v)),
        )
    }

    /// A function's nest: its MAC address, then its link state.
    fn info(number: u32, state: u32) -> Vec<u8> {
        let two = |a: u32, b: u32| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        let mac = [number.to_ne_bytes().to_vec(), vec![0; 32]].concat();
        nest(&[(1, &mac), (5, &two(number, state))])
    }

    fn answer(count: Option<u32>, list: Option<&[Vec<u8>]>) -> Vec<u8> {
        let mut request = Request::new(RTM_NEWLINK, 0)
            .header(&[0; route::IFINFOMSG])
            .text(3, "ens1f0np0");
        if let Some(count) = count {
            request = request.u32(21, count);
        }
        if let Some(list) = list {
            let infos: Vec<(u16, &[u8])> = list.iter().map(|info| (1, info.as_slice())).collect();
            // The kernel marks this nest, and not all others.
            request = request.attr(22 | 0x8000, &nest(&infos));
        }
        payload(request.u32(16, 6))
    }

    #[test]
    fn states_by_number() {
        let got = links(&answer(
            Some(4),
            Some(&[info(0, 0), info(1, 1), info(2, 2), info(3, 7)]),
        ));
        let states = [
            (0, VfLink::Auto),
            (1, VfLink::Enable),
            (2, VfLink::Disable),
            (3, VfLink::Other),
        ];
        assert_eq!(
            got,
            Ok(Some(VfLinks {
                states: states.into()
            }))
        );
    }

    #[test]
    fn all_or_nothing() {
        let two = [info(0, 0), info(1, 2)];
        for (case, count, list) in [
            ("no number", None, Some(&two[..])),
            ("no list: no driver that tells", Some(2), None),
            ("none", Some(0), Some(&[][..])),
            ("one is left out", Some(3), Some(&two[..])),
            ("more than there are", Some(1), Some(&two[..])),
        ] {
            assert_eq!(links(&answer(count, list)), Ok(None), "{case}");
        }
        let without = [nest(&[(1, &[0; 36])])];
        assert_eq!(links(&answer(Some(1), Some(&without))), Ok(None));
        let short = [nest(&[(5, &[0; 4])])];
        assert!(links(&answer(Some(1), Some(&short))).is_err());
        assert!(links(&[0; 8]).is_err());
    }

    /// What kernels before nla_nest_end_safe make of a list that is too long: its length modulo
    /// 64 Ki, and the rest where attributes are expected.
    #[test]
    fn a_list_that_wrapped_is_not_observable() {
        for count in (250..1400u32).step_by(13) {
            let infos: Vec<Vec<u8>> = (0..count).map(|n| info(n, 2)).collect();
            let list: Vec<u8> = infos
                .iter()
                .flat_map(|info| nest(&[(1, info.as_slice())]))
                .collect();
            let mut bytes = answer(Some(count), None);
            let length = u16::try_from((list.len() + 4) % 0x1_0000).unwrap();
            bytes.extend(length.to_ne_bytes());
            bytes.extend(22u16.to_ne_bytes());
            let fits = list.len() + 4 <= usize::from(u16::MAX);
            bytes.extend(list);
            let got = links(&bytes).unwrap();
            assert_eq!(got.is_some(), fits, "{count}");
        }
    }

    #[test]
    fn what_has_no_functions_tells_none() {
        assert_eq!(read("lo"), Reading::NotObservable);
        assert!(matches!(read("no-such-if0"), Reading::Failed(_)));
        assert_eq!(read("a-name-much-too-long"), Reading::Absent);
    }
}
