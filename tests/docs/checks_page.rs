//! The page of checks, out of their table.

use selvage::check::Basis;
use selvage::check::expected::Attribute;
use selvage::check::verdict_docs;
use selvage::check::{CHECKS, Check, ReasonDoc, Weight, attributes};
use std::fmt::Write as _;

/// docs/checks.md.
pub fn checks_markdown() -> String {
    let mut page = String::from(
        "# Checks\n\nMade from the table of checks: change `src/check/`, then run `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         A finding is *failing* (something is lost: the node is unready), *degraded* (it works with less) or *unknown* \
         (the sources cannot tell, which never makes a node unready). A *notice* is shown and exported, but does not move \
         the verdict; what is said of ports that are not rails is always a notice. Every check can be left out by `mute`, \
         and every threshold set, in the policy.\n\n\
         `action` is the first step of the remedy for machines that repair nodes: `none` (nothing on this node), \
         `reseat_cable`, `replace_cable`, `check_switch_port`, `reset_device`, `reload_driver`, `reboot`, `power_cycle`, \
         `replace_nic`, `replace_gpu`, `fix_configuration` (of the node, the cluster, the subnet manager or the agent) or \
         `call_provider` (a cloud, or the staff of the data centre). A finding may carry another one than its row here, \
         as an Xid does by its code.\n\n\
         A rail is a port of the compute fabric. Never one are the Ethernet port with the default route (also below a VLAN \
         or Open vSwitch, as OVN-Kubernetes has it; not where most GPUs have a port of its board next to them, as its own has), the other ports of its card without another card and no GPU next to it, the \
         machine's own gVNIC, and Ethernet on a shape that is known to have no fabric; `role_reason` in the report says \
         which rule decided, `rails.include` overrides it.\n\n| check | looks at | reasons |\n|---|---|---|\n",
    );
    for check in CHECKS {
        let reasons: Vec<String> = check
            .reasons()
            .iter()
            .map(|doc| format!("`{}`", doc.reason))
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| [`{id}`](#{id}) | {title} | {reasons} |",
            id = check.id,
            title = check.title(),
            reasons = reasons.join(" ")
        );
    }
    page.push_str(
        "\n## What is expected\n\nWhere a check asks what should be, the first of these sources that the value falls short of decides. \
         What is *configured* (`expect.*`) excuses what it names, whatever the others say. The *shape* counts where the table of machines \
         is sure; a number that such a machine only may have gives a notice. *Remembered* is the part's own best that stood for ten \
         minutes, kept over reboots; `selvage accept` forgets it, and other hardware begins afresh. *Peers* are rails of the same known \
         driver and model: that one of three has a value proves that it is possible, while of settings, of which none is better, \
         a clear majority (more than half, and three at least) says what is usual. A source without an entry is not asked.\n\n\
         | attribute | configured | shape | remembered | peers |\n|---|---|---|---|---|\n",
    );
    for attribute in attributes() {
        expectation(&mut page, attribute);
    }
    page.push_str(
        "\nSome faults need no expectation and have no row. LID 0, an empty first P_Key, no uverbs device, no RoCE v2 GID and \
         one lane of InfiniBand's four are wrong on every machine. Of two observed values neither is an expectation: a PCIe link \
         below what both its ends can do, a PCIe path below its port's rate, a resource that counts more or fewer devices than \
         the kernel has. GPUDirect's path is one of several ways, not a number of which more is better. Rails and GPUs that are \
         gone are missed one by one, by address and GUID: their number would not say which.\n",
    );
    for check in CHECKS {
        section(&mut page, check);
    }
    page + &verdict_markdown()
}

/// A status or action, as JSON has it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap();
    value.as_str().unwrap().to_string()
}

fn expectation(page: &mut String, attribute: &Attribute) {
    use Basis::{Configured, Peers, Remembered, Shape};
    let cells = [Configured, Shape, Remembered, Peers].map(|because| {
        let doc = attribute.reason(because).map(ReasonDoc::of);
        doc.map_or_else(String::new, |doc| {
            format!("`{}`: {}", doc.reason, status(doc))
        })
    });
    let _ = writeln!(page, "| {} | {} |", attribute.name, cells.join(" | "));
}

/// `degraded`, `failing (notice)`.
fn status(doc: &ReasonDoc) -> String {
    let notice = match doc.weight {
        Weight::Verdict => "",
        Weight::Notice => " (notice)",
    };
    word(&doc.status) + notice
}

fn section(page: &mut String, check: &Check) {
    let _ = write!(
        page,
        "\n## {}\n\n{}. {}\n\n| reason | status | meaning | what to do | action |\n|---|---|---|---|---|\n",
        check.id,
        check.title(),
        check.what()
    );
    for doc in check.reasons() {
        let (status, action) = (status(doc), word(&doc.action));
        let _ = writeln!(
            page,
            "| `{}` | {status} | {} | {} | `{action}` |",
            doc.reason,
            doc.meaning.replace('|', "\\|"),
            doc.remedy().replace('|', "\\|"),
        );
    }
}

/// Held by `without_what_ready_rests_on_the_verdict_is_unknown` in tests/laws.rs.
const FACTS_OF_READY: &str = "\
    | which RDMA devices and ports there are | netlink, `/sys/class/infiniband` | `NoData`; of one rail's device `SourceFailing` |\n\
    | state of each rail; of a gVNIC, its interface's carrier | netlink, `ports/N/state` | `StateUnreadable`; of all `NoData` |\n\
    | link layer of the rails | `ports/N/link_layer` | `StateUnreadable`, where that of none can be read |\n\
    | rate of the rails where it is judged | `ports/N/rate` | `RateUnreadable`, where that of none can be read |\n\
    | GPUs and NICs on the PCI bus | `/sys/bus/pci/devices` | `BusUnreadable` |\n\
    | the kernel log, where there are GPUs | `/dev/kmsg`, syslog(2) | `KernelLogBlind`; a notice on a directory tree, which has none |\n\
    | the node's first full window | every source | `Starting` |\n";

/// The reasons that no finding brings.
fn verdict_markdown() -> String {
    let rows = verdict_docs().iter().map(|doc| {
        let action = word(&doc.action);
        format!(
            "| `{}` | {} | {} | `{action}` |\n",
            doc.reason,
            doc.meaning,
            doc.remedy()
        )
    });
    format!(
        "\n## What ready rests on\n\nWithout one of these facts the verdict is *unknown*. A rail's P_Key or \
         GID table that cannot be read makes it unknown, too. Every other fact that cannot be read is `null`, `unknown` or empty in the JSON report, and judges nothing; a source \
         that cannot be read at all is `SourceFailing`.\n\n| fact | read from | without it |\n|---|---|---|\n{FACTS_OF_READY}\
         \n## When nothing shows that the node is ready\n\nThese reasons \
         come from no check; all but `NotAFabricNode` (state `none`) are of an *unknown* verdict. Ready needs proof: a rail that was seen up.\n\n\
         | reason | meaning | what to do | action |\n|---|---|---|---|\n{}",
        rows.collect::<String>()
    )
}
