//! Any bytes as a netlink datagram: no panic, and it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::source::netlink::{dcb, messages, rdma, route, vf};

fuzz_target!(|bytes: &[u8]| {
    for message in messages(bytes) {
        let Ok(message) = message else { break };
        let _ = route::parse(&message);
        let _ = message.step();
    }
    let _ = dcb::facts(bytes);
    let _ = vf::links(bytes);
    let _ = rdma::device(bytes);
    let _ = rdma::port_link(bytes);
});
