"""One node: its verdict, its rails, and all that speaks for or against them."""

import frame
from parts import (
    BAD, GOOD, NO_AGENT, PLAIN, QUIET, STATES, WARN, Col, Q, lines, stat, table, timeline,
)
from queries import (
    CNP, DROPS, FAILED, HOST, NODE, PORT, PORT_ERRORS, STALE_AFTER, findings, ports, rails, zero_of,
)

VERDICTS = dict(enumerate([*STATES.items(), ("stale", BAD)], 1))
RANKS = {0: ("notice", PLAIN), 1: ("unknown", QUIET), 2: ("degraded", WARN), 3: ("failing", BAD)}
LOADED = {0: ("not loaded", QUIET), 1: ("loaded", GOOD)}
LINK_STATES = {
    1: ("down", BAD), 2: ("init", WARN), 3: ("armed", WARN), 4: ("active", GOOD),
    5: ("active, deferred", PLAIN),
}
PHYSICAL = {
    1: ("sleep", QUIET), 2: ("polling", BAD), 3: ("disabled", BAD), 4: ("training", WARN),
    5: ("link up", GOOD), 6: ("error recovery", BAD), 7: ("phy test", QUIET),
}
PATHS = {
    1: ("dmabuf", GOOD), 2: ("peermem", GOOD), 3: ("none", BAD), 4: ("unknown", QUIET),
}
NO_RAIL = "no data: the agent sees no rail, or does not answer"
NO_HW = "no data: no RDMA port with such counters"
NO_PFC = "no data: no Ethernet port with PFC counters (InfiniBand and EFA have none)"
LOSS = f"instance_device_port_counter:selvage_port_retransmission:rate5m{{{NODE}}}"
NO_RULES = "no data: no such port, or the recording rules are not loaded"


def verdict(board):
    board.row("Verdict")
    board.add(stat(
        "Verdict", "May jobs run here? "
        "What the agent says of this node now. It should be ready; stale: the report is "
        "older than two minutes, so what it says is not known any more.",
        [Q(f"max by (state) (instance_state:selvage_verdict:info{{{NODE}}})", "{{state}}")],
        colors={**STATES, "stale": BAD}, name=True,
    ), 4, 4)
    board.add(stat(
        "Report's age", "Is the verdict current? "
        "Time since the agent last evaluated the node. Seconds; above two minutes it "
        "lives and stands still, and its verdict counts for nothing.",
        [Q(f"max(selvage_report_age_seconds{{{NODE}}})", "age")], "s",
        steps=[(None, PLAIN), (STALE_AFTER, BAD)], decimals=0,
    ), 3, 4)
    board.add(stat(
        "Since", "How long has it been so? "
        "Since when this verdict stands; at the earliest, since the agent started.",
        [Q(f"1000 * max(selvage_fabric_state_since_timestamp_seconds{{{NODE}}})", "since")],
        "dateTimeFromNow",
    ), 3, 4)
    up = rails(f"max by ({PORT}) (selvage_port_up{{{NODE}}})", NODE)
    board.add(stat(
        "Rails up", "Are all rails there and up? "
        "Rails that are active, and all rails that the agent sees. Both should be "
        "the number that was bought: a NIC off the bus is missing from both.",
        [Q(f"sum({up})", "up"), Q(f"sum(selvage_rails{{{NODE}}})", "rails")],
        wide=True, empty=NO_RAIL,
    ), 3, 4)
    board.add(stat(
        "GPUs", "Are all GPUs there? "
        "GPUs on the PCI bus. It should be the number that was bought.",
        [Q(f"sum(selvage_gpus{{{NODE}}})", "GPUs")],
    ), 2, 4)
    board.add(stat(
        "GPUDirect RDMA", "Can NICs reach GPU memory? "
        "The path that GPUDirect RDMA can take: dmabuf or peermem are well; with "
        "none, data is staged through host memory.",
        [Q(f"max by (path) (selvage_gpudirect_path{{{NODE}}} == 1)", "{{path}}")],
        colors={"dmabuf": GOOD, "peermem": GOOD, "none": BAD, "unknown": QUIET}, name=True,
    ), 3, 4)
    board.add(stat(
        "GPUDirect Storage", "Does storage reach GPU memory? "
        "Whether nvidia-fs runs. Absent is well where no one uses it.",
        [Q(f"max(selvage_gds_ready{{{NODE}}})", "GDS")],
        values={0: ("absent", QUIET), 1: ("ready", GOOD)},
    ), 3, 4)
    board.add(stat(
        "Taint", "Is it closed to new pods? "
        "Whether the node carries the agent's taint. It should while the node is unready.",
        [Q(f"max(selvage_node_taint_applied{{{NODE}}})", "taint")],
        values={0: ("none", PLAIN), 1: ("tainted", WARN)},
        empty="no data: the node's object was not seen",
    ), 3, 4)
    board.add(timeline(
        "Verdict over time", "When did the verdict change? "
        "When which verdict stood. A gap: the agent did not answer; stale: it "
        "answered, and judged no more.",
        [Q(f"instance:selvage_verdict:value{{{NODE}}} * 1", "{{instance}}")], VERDICTS,
    ), 24, 4)
    found = findings(NODE)
    board.add(table(
        "What the agent says", "What is wrong, and what is to be done? "
        "Findings that stand now, worst first; a notice does not move the "
        "verdict. Seen since goes back no further than the time range above.",
        [Q(found), Q(f"1000 * min_over_time(timestamp({found.removesuffix(' * 1')})[$__range:1m])"
                     f" and {found}")],
        [Col("status", "Status", values={
            "failing": ("failing", BAD), "degraded": ("degraded", WARN),
            "unknown": ("unknown", QUIET), "notice": ("notice", PLAIN),
         }, width=100), Col("reason", "Reason"), Col("subject", "Subject"), Col("check", "Check"),
         Col("@B", "Seen since", unit="dateTimeAsIso", width=180)],
        sort=["-@A"], empty="The agent has no finding, or does not answer: see Verdict.",
    ), 14, 8)
    board.add(timeline(
        "Findings over time", "When did each fault begin and end? "
        "When each finding stood. What comes and goes is seen here.",
        [Q(found, "{{reason}} {{subject}}")], RANKS,
        empty="No finding in this time, or no agent: see Verdict.",
    ), 10, 8)


def links(board):
    board.row("Rails")
    kept = "netdev, pci, link_layer, driver, firmware, rail"
    board.add(table(
        "Ports", "Is one port unlike the others? "
        "Every RDMA port of the node, and whether it is a rail (compute fabric). Rails "
        "should be active, with one rate and one firmware.",
        [Q(ports(f"selvage_port_state_id{{{NODE}}}", NODE, kept)),
         Q(ports(f"selvage_port_physical_state_id{{{NODE}}}", NODE, kept)),
         Q(ports(f"8 * selvage_port_rate_bytes_per_second{{{NODE}}}", NODE, kept)),
         Q(ports(f"selvage_port_link_transitions_total{{{NODE}}}", NODE, kept))],
        [Col("device", "Device"), Col("port", "Port", width=60),
         Col("rail", "Rail", values={"true": ("rail", GOOD), "false": ("no", QUIET)}, width=60),
         Col("@A", "State", values=LINK_STATES), Col("@B", "Physical", values=PHYSICAL),
         Col("@C", "Rate", unit="bps"), Col("@D", "Edges since start", unit="short"),
         Col("link_layer", "Link layer"), Col("netdev", "Interface"), Col("pci", "PCI"),
         Col("driver", "Driver"), Col("firmware", "Firmware")],
        sort=["device"], empty=NO_RAIL,
    ), 24, 8)
    board.add(timeline(
        "Rails' state over time", "When was a rail down? "
        "The logical state of each rail. Anything but active is time in "
        "which jobs stand still.",
        [Q(rails(f"max by ({PORT}) (selvage_port_state_id{{{NODE}}})", NODE), "{{device}}/{{port}}")],
        LINK_STATES, empty=NO_RAIL,
    ), 12, 8)
    board.add(lines(
        "Link edges", "Does a link flap? "
        "Links that went up or down, each counts one; those between two polls "
        "included. There should be none.",
        [Q(f"sum by (device, port) (increase(selvage_port_link_transitions_total{{{NODE}}}"
           "[$__rate_interval]))", "{{device}}/{{port}}")],
        empty=NO_RAIL, decimals=0,
    ), 12, 8)


def throughput(board):
    board.row("Throughput against line rate")
    rate = rails(f"max by ({PORT}) (selvage_port_rate_bytes_per_second{{{NODE}}})", NODE)
    for name, verb in (("receive", "received"), ("transmit", "sent")):
        moved = rails(
            f"max by ({PORT}) (instance_device_port:selvage_port_{name}:rate5m{{{NODE}}})", NODE)
        board.add(lines(
            f"Bytes {verb}", f"Do all rails {name} alike? "
            f"RDMA bytes {verb} by each rail, alongside the line rate of the slowest rail. In a collective the rails should move alike.",
            [Q(moved, "{{device}}/{{port}}"), Q(f"min({rate})", "line rate", QUIET, dashed=True)],
            "Bps", empty=NO_RULES,
        ), 12, 8)
    for name, verb in (("receive", "received"), ("transmit", "sent")):
        share = f"instance_device_port:selvage_port_{name}_utilization:ratio{{{NODE}}}"
        board.add(lines(
            f"Share of line rate {verb}", f"Does one rail {name} less than it could? "
            f"Bytes {verb} against each rail's own line rate. Near 1 "
            "the rail is full; one rail far below the others drags the job.",
            [Q(rails(f"max by ({PORT}) ({share})", NODE), "{{device}}/{{port}}")],
            "percentunit", steps=[(None, "transparent"), (0.95, WARN)], high=1, empty=NO_RULES,
        ), 12, 7)


def errors(board):
    board.row("Errors and retransmission")
    pma = f'selvage_port_counter_total{{{NODE}, counter=~"{PORT_ERRORS}"}}'

    def hardware(counters):
        return f'rate(selvage_port_hw_counter_total{{{NODE}, counter=~"{counters}"}}[$__rate_interval])'

    no_pma = "no data: no port that lets its error counters be read"
    board.add(lines(
        "Port errors by port", "Which port has errors? "
        "How fast the error counters of each port rise, all together: the same "
        "counters as the fleet's link errors. They should stand still.",
        [Q(f"sum by (device, port) (rate({pma}[$__rate_interval]))", "{{device}}/{{port}}")],
        "cps", empty=no_pma,
    ), 12, 8)
    board.add(lines(
        "Port errors by counter", "Which errors? "
        "The same by the kernel's name of the counter, over all ports.",
        [Q(f"sum by (counter) (rate({pma}[$__rate_interval]))", "{{counter}}")],
        "cps", empty=no_pma,
    ), 12, 8)
    board.add(lines(
        "Retransmission by port", "Are packets lost on the way? "
        "Hardware counters of packets lost, late, out of order or sent again. "
        "Some is normal on lossy Ethernet; on InfiniBand there should be next to none.",
        [Q(f"sum by (device, port) ({LOSS})", "{{device}}/{{port}}")],
        "cps", empty=NO_HW,
    ), 9, 8)
    board.add(lines(
        "Retransmission by counter", "In which way are they lost? "
        "The same by the driver's name of the counter.",
        [Q(f"sum by (counter) ({LOSS})", "{{counter}}")],
        "cps", empty=NO_HW,
    ), 9, 8)
    board.add(stat(
        "Saturated counters", "Can a counter no longer count? "
        "Error counters that stand at their maximum and can tell of no new "
        "error. It should be 0; else clear them (perfquery -R).",
        [Q(zero_of(f"sum(selvage_port_counter_saturated{{{NODE}}})",
                   f"count(selvage_port_counter_total{{{NODE}}})"), "saturated")],
        steps=[(None, PLAIN), (1, WARN)], empty=no_pma,
    ), 6, 8)
    board.add(lines(
        "Receivers without buffers", "Is the receiver too slow? "
        "Packets dropped or put off as no buffer was posted or free, by "
        "the driver's name of the counter. It is the program's or this host's pace, not the path.",
        [Q(f"sum by (counter, device, port) ({hardware(DROPS)})",
           "{{device}}/{{port}} {{counter}}")], "cps", empty=NO_HW,
    ), 12, 8)
    board.add(lines(
        "Failed commands and requests", "Does the NIC refuse work? "
        "Commands that the device refused or left unanswered, and "
        "RDMA requests that failed (EFA, Broadcom, MANA). They should stand still.",
        [Q(f"sum by (counter, device, port) ({hardware(FAILED)})",
           "{{device}}/{{port}} {{counter}}")], "cps",
        empty="no data: no port whose driver counts them (mlx5 does not)",
    ), 12, 8)


def congestion(board):
    board.row("Congestion")
    for direction, text in (
        ("receive", "Does the fabric slow this node? "
        "Pause received: the fabric tells this node to wait."),
        ("transmit", "Does this node slow the fabric? "
        "Pause sent: this node cannot take in what arrives, and stops others."),
    ):
        board.add(lines(
            f"PFC pause, {direction}", f"{text} Share of the last five minutes: above a tenth "
            "(dashed) is pressure, above half (dashed) a storm.",
            [Q("max by (netdev, priority) (instance_netdev_priority_direction:"
               f'selvage_pfc_pause:ratio{{{NODE}, direction="{direction}"}})',
               "{{netdev}} priority {{priority}}")],
            "percentunit", steps=[(None, "transparent"), (0.1, WARN), (0.5, BAD)], empty=NO_PFC,
        ), 12, 8)
    board.add(lines(
        "Discards", "Does a lossless fabric drop packets? "
        "Packets dropped for lack of buffer: by priority on Ethernet, on send by port "
        "on InfiniBand. On a lossless priority there should be none.",
        [Q(f"sum by (netdev, priority) (rate(selvage_pfc_discards_total{{{NODE}}}"
           "[$__rate_interval]))", "{{netdev}} priority {{priority}}"),
         Q(f'sum by (device, port) (rate(selvage_port_counter_total{{{NODE}, '
           'counter="port_xmit_discards"}[$__rate_interval]))', "{{device}}/{{port}} send")],
        "pps", empty="no data: no port that counts discards",
    ), 8, 8)
    board.add(lines(
        "Congestion notifications", "Is a path congested? "
        "CNPs sent and handled, by the driver's name of the counter. "
        "Bursts are how congestion control works; a steady flood means a path that is too narrow.",
        [Q(f'sum by (counter) (rate(selvage_port_hw_counter_total{{{NODE}, counter=~"{CNP}"}}'
           "[$__rate_interval]))", "{{counter}}")],
        "pps", empty="no data: no port that counts CNPs (InfiniBand by default, EFA)",
    ), 8, 8)
    board.add(lines(
        "Waiting for credits", "Does data wait for the fabric? "
        "InfiniBand's port_xmit_wait: ticks in which data waited and could "
        "not be sent. High on many nodes: the fabric is congested; on one: look at its peers.",
        [Q(f'sum by (device, port) (rate(selvage_port_counter_total{{{NODE}, '
           'counter="port_xmit_wait"}[$__rate_interval]))', "{{device}}/{{port}}")],
        "cps", empty="no data: no InfiniBand port",
    ), 8, 8)


def gpus(board):
    board.row("GPUs, GPUDirect and PCIe")
    board.add(table(
        "Xid errors", "Which GPU errors were logged? "
        "NVIDIA's GPU errors that the kernel log holds. Class app is the job's; the "
        "others are the GPU's, its memory's, its links' or the driver's.",
        [Q(f"sum by (pci, xid, class) (selvage_gpu_xid_total{{{NODE}}}) > 0")],
        [Col("pci", "GPU"), Col("xid", "Xid", width=70), Col("class", "Class"),
         Col("@A", "Count", unit="short")],
        sort=["-@A"], empty="No Xid in the kernel log, or no agent: see Verdict.",
    ), 8, 8)
    board.add(lines(
        "Xid errors over time", "When did they come? "
        "The counts as they grew. A step is an error.",
        [Q(f"sum by (pci, xid, class) (selvage_gpu_xid_total{{{NODE}}})",
           "{{pci}} Xid {{xid}} ({{class}})")],
        empty="No Xid in the kernel log, or no agent: see Verdict.", decimals=0, points=True,
    ), 8, 8)
    board.add(table(
        "NIC events in the kernel log", "What do the NICs complain about? "
        "What the NICs' drivers told, by slot: links, heat, "
        "cables, firmware.",
        [Q(f"sum by (pci, event) (selvage_nic_kernel_events_total{{{NODE}}}) > 0")],
        [Col("pci", "NIC"), Col("event", "Event"), Col("@A", "Count", unit="short")],
        sort=["-@A"], empty="No NIC event in the kernel log, or no agent: see Verdict.",
    ), 8, 8)
    board.add(timeline(
        "GPUDirect path over time", "When did the GPUDirect path change? "
        "Which path GPUDirect RDMA could take. A change to none costs "
        "every job bandwidth from then on.",
        [Q(f"instance:selvage_gpudirect_path:value{{{NODE}}} * 1", "path")], PATHS,
    ), 12, 4)
    board.add(timeline(
        "GPUDirect Storage over time", "Was nvidia-fs there all the time? "
        "When nvidia-fs ran. It should not come and go under jobs.",
        [Q(f"max by ({HOST}) (selvage_gds_ready{{{NODE}}})", "nvidia-fs")],
        {0: ("absent", QUIET), 1: ("ready", GOOD)},
    ), 12, 4)
    board.add(timeline(
        "Kernel modules", "Are the kernel modules loaded? "
        "Modules that the fabric and GPUDirect need. Not all are needed "
        "everywhere: one peer-memory module or DMA-BUF is enough.",
        [Q(f"max by (module) (selvage_kernel_module_loaded{{{NODE}}})", "{{module}}")], LOADED,
    ), 12, 9)
    now = f"max by (pci) (selvage_pcie_link_bytes_per_second{{{NODE}}})"
    best = f"max by (pci) (max_over_time(selvage_pcie_link_bytes_per_second{{{NODE}}}[$__range]))"
    board.add(table(
        "PCIe links, now and before", "Has a PCIe link got slower? "
        "Bandwidth of each GPU's and NIC's PCIe link as trained now, "
        "against its best in the time range. A GPU at rest lowers its speed; a NIC should not.",
        [Q(now), Q(best), Q(f"{now} / {best}")],
        [Col("pci", "Slot"), Col("@A", "Now", unit="Bps"), Col("@B", "Best in range", unit="Bps"),
         Col("@C", "Share", unit="percentunit",
             steps=[(None, BAD), (0.5, WARN), (0.99, GOOD)])],
        sort=["@C"], empty="no data: no PCIe link of a GPU or NIC can be read",
    ), 12, 9)


def cluster(board):
    board.row("Kubernetes and jobs")
    board.add(timeline(
        "Taint over time", "When was it tainted? "
        "Whether the node carried the taint, and why it did not when it should "
        "have.",
        [Q(f"max by ({HOST}) (selvage_node_taint_applied{{{NODE}}})", "taint"),
         Q(f"2 * max by (reason) (selvage_node_taint_withheld{{{NODE}}})", "withheld: {{reason}}")],
        {0: ("no", QUIET), 1: ("tainted", WARN), 2: ("withheld", BAD)},
        empty="no data: the node's object was not seen",
    ), 12, 6)
    board.add(table(
        "NCCL on this node", "Which jobs run here, and over what? "
        "Containers whose logs hold NCCL's lines, and the network they use between nodes. socket is "
        "TCP. Jobs without a pod are not listed.",
        [Q("max by (namespace, pod, container, network) "
           f'(selvage_nccl_network{{{NODE}, container=~".+"}})')],
        [Col("namespace", "Namespace"), Col("pod", "Pod", link=(
            "/d/selvage-jobs?var-namespace=${__data.fields.Namespace}&var-pod="
            "${__data.fields.Pod}&${datasource:queryparam}&${cluster:queryparam}"
            "&${__url_time_range}")), Col("container", "Container"),
         Col("network", "Network", values={
             "socket": ("socket", WARN), "unknown": ("unknown", QUIET)})],
        sort=["namespace"], empty="No NCCL in this node's logs, or logs are not read.",
    ), 12, 6)
    board.add(table(
        "Promised and present", "Is what pods are promised there? "
        "Resources for RDMA and GPUs: what pods can have, what device plugins "
        "registered, and the devices that the kernel has where they can be counted (slots of shared "
        "devices cannot). The three should be alike.",
        [Q(f"max by (resource) (selvage_resource_{kind}{{{NODE}}})")
         for kind in ("allocatable", "capacity", "devices")],
        [Col("resource", "Resource"), Col("@A", "For pods", unit="short"),
         Col("@B", "Registered", unit="short"), Col("@C", "In the kernel", unit="short")],
        sort=["resource"],
        empty="no data: the node's object was not seen, or offers no such resource",
    ), 16, 6)
    board.add(table(
        "Machine", "What is this node held against? "
        "What the machine is taken for, and by what: settings, the instance type's label, "
        "DMI or drivers; inferred: no known shape, so it is held against no table.",
        [Q(f"max by (profile, source) (selvage_profile_info{{{NODE}}})")],
        [Col("profile", "Profile"), Col("source", "Known by")], sort=[], empty=NO_AGENT,
    ), 8, 6)


def board():
    made = frame.Board(
        "selvage-node", "One node's GPU fabric: its verdict, its rails, and what the agent says.",
        [frame.node(multi=False)],
    )
    for part in (verdict, links, throughput, errors, congestion, gpus, cluster):
        part(made)
    made.annotate_verdicts(NODE)
    made.annotate_alerts(NODE)
    return made
