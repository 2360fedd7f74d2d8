# what: Xid and mlx5 lines of facility kernel count; what user space writes does not
# group: d-xid
# machine: metal

scenario() {
    must insmod $OWN/kmsgtest.ko
    pci_identity 0000:01:00.0=10de:2330:030200 0000:02:00.0=15b3:1021:020700
    must insmod $OWN/testib.ko count=1 pci=0000:02:00.0
    # Before the agent starts: boot-time Xids are seen once.
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002, intr 00000000. MMU Fault: ENGINE GRAPHICS"
    agent_start
    until_metric 30 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 1
    klog "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    until_metric 10 'selvage_gpu_xid_total{pci="0000:01:00",xid="79"}' == 1
    klog "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    until_metric 10 'selvage_gpu_xid_total{pci="0000:01:00",xid="79"}' == 2
    until_report 30 '[.xid[]? | select(.xid == 79)] | length > 0'
    until_report 60 '[.findings[] | select(.check == "xid" and (.subject | startswith("0000:01:00")))] | length == 1'
    until_metric 60 'selvage_fabric_state{state="unready"}' == 1

    # A line of mlx5, with the device in the record's own fields, or in the text.
    klog "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged"
    until_metric 10 'selvage_nic_kernel_events_total{pci="0000:5e:00.0",event="nic_cable_unplugged"}' == 1
    # As the driver itself says it: dev_err() of a function bound to mlx5_core.
    kdev 0000:02:00.0 "poll_health:856:(pid 0): device's health compromised - reached miss count"
    until_metric 10 'selvage_nic_kernel_events_total{pci="0000:02:00.0",event="nic_health"}' == 1
    until_report 30 '[.findings[] | select(.check == "nic_kernel")] | length > 0'

    # User space may write to the log, but never with facility kernel.
    local line
    for line in 1 2 3; do
        echo "NVRM: Xid (PCI:0000:99:00): 48, An uncorrectable double bit error (DBE) has been detected" >/dev/kmsg
        echo "<3>NVRM: Xid (PCI:0000:99:00): 95, Uncontained" >/dev/kmsg
    done
    # Behind them, so that they have been read when this one counts.
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000003"
    until_metric 10 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 2
    expect 'selvage_gpu_xid_total{pci="0000:99:00"}' absent
}
