use super::*;
use crate::source::testtree::TestTree;

const GUID: u64 = 0xb83f_d203_000a_1b2c;

/// What a node answers with: NodeInfo of a switch that was asked by its port 17.
fn node_info() -> Vec<u8> {
    let mut data = vec![1, 1, 2, 65];
    data.extend([0; 8]);
    data.extend(GUID.to_be_bytes());
    data.resize(36, 0);
    data.push(17);
    data
}

/// An answer as the kernel hands it over: the request comes back with the answer's method, the
/// direction's bit and data.
fn answer(attribute: u16, data: &[u8]) -> Vec<u8> {
    let mut answer = request(7, attribute, 1);
    answer[HEADER + 3] = GET_RESPONSE;
    answer[HEADER + 4] = 0x80;
    answer[HEADER + 64..][..data.len()].copy_from_slice(data);
    answer
}

fn described(text: &[u8]) -> Vec<u8> {
    answer(NODE_DESCRIPTION, text)
}

#[test]
fn a_request_goes_one_hop_out_of_the_port_and_only_reads() {
    let request = request(7, NODE_INFO, 2);
    assert_eq!(request.len(), HEADER + MAD);
    let (header, mad) = request.split_at(HEADER);
    let words = [7, 0, u32::from(TIMEOUT_MS), 0, 0, 0, 0].map(u32::to_ne_bytes);
    assert_eq!(header[..28], words.concat());
    assert_eq!(header[28..30], [0xff, 0xff]);
    assert!(header[30..].iter().all(|byte| *byte == 0));
    assert_eq!(mad[..8], [1, 0x81, 1, 0x01, 0, 0, 0, 1]);
    assert_eq!(mad[16..18], [0, 0x11]);
    assert_eq!(mad[32..36], [0xff; 4]);
    assert_eq!(mad[128..131], [0, 2, 0]);
    let used = |at: &usize| {
        (..8).contains(at) || (15..18).contains(at) || (32..36).contains(at) || *at == 129
    };
    let rest = (0..MAD).filter(|at| !used(at)).map(|at| mad[at]);
    assert_eq!(rest.sum::<u8>(), 0, "{mad:?}");
}

#[test]
fn a_node_is_named_by_its_description_or_its_guid() {
    let guid = "0xb83fd203000a1b2c";
    let long = [b'x'; 64];
    for (description, switch) in [
        (&b"MF0;leaf-3:MQM9700/U1"[..], "MF0;leaf-3:MQM9700/U1"),
        (b"leaf-3\0and what was here before", "leaf-3"),
        (b"", guid),
        (b"  \0", guid),
        (b"\xff\xfe", guid),
        (b"le\x1b[31maf\xff\x7f", "le[31maf"),
        (&long, std::str::from_utf8(&long).unwrap()),
    ] {
        let found = parse(&answer(NODE_INFO, &node_info()), &described(description));
        let found = found.unwrap();
        assert_eq!((&*found.switch, &*found.switch_port), (switch, "17"));
        assert_eq!(found.ids, (guid.into(), "17".into()));
        assert_eq!(found.description, None);
    }
}

#[test]
fn what_is_not_the_answer_names_nothing() {
    let info = answer(NODE_INFO, &node_info());
    let description = described(b"leaf-3");
    assert!(parse(&info, &description).is_some());
    for (at, byte, what) in [
        (4, 110, "the kernel's status: ETIMEDOUT"),
        (HEADER + 1, 0x01, "class of LID-routed SMPs"),
        (HEADER + 3, GET, "the request"),
        (HEADER + 3, 0x05, "a trap"),
        (HEADER + 4, 0x81, "a status"),
        (HEADER + 5, 0x0c, "unsupported method and attribute"),
        (HEADER + 16, 0xff, "a vendor's attribute"),
        (HEADER + 17, 0x15, "PortInfo"),
    ] {
        for broken in [0, 1] {
            let mut answers = [info.clone(), description.clone()];
            answers[broken][at] = byte;
            assert_eq!(parse(&answers[0], &answers[1]), None, "{what}, {broken}");
        }
    }
    for length in 0..HEADER + 128 {
        assert_eq!(parse(&info[..length], &description), None, "{length}");
        assert_eq!(parse(&info, &description[..length]), None, "{length}");
    }
    assert_eq!(parse(&description, &info), None);
    let mut nameless = node_info();
    nameless[12..20].fill(0);
    assert_eq!(parse(&answer(NODE_INFO, &nameless), &description), None);
}

#[test]
fn the_port_s_device_is_found_by_name_and_port() {
    let tree = TestTree::new();
    for (name, device, port) in [
        ("issm0", "mlx5_0", "1"),
        ("umad0", "mlx5_1", "1"),
        ("umad1", "mlx5_0", "2"),
        ("umad2", "mlx5_0", "1"),
    ] {
        let dir = format!("sys/class/infiniband_mad/{name}");
        tree.files(&dir, &[("ibdev", device), ("port", port)]);
    }
    let host = tree.host();
    let node = |device, port| device_node(&host, device, port);
    let at = |name: &str| Some(host.path(format!("dev/infiniband/{name}")));
    assert_eq!(node("mlx5_0", 1), at("umad2"));
    assert_eq!(node("mlx5_0", 2), at("umad1"));
    assert_eq!(node("mlx5_1", 1), at("umad0"));
    assert_eq!(node("mlx5_1", 2), None);
    let device = RdmaDevice::at("0000:19:00.0");
    assert_eq!(neighbors(&host, &device), Reading::Absent);
}
