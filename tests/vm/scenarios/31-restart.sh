# what: a restart of the agent does not count the log again; a new Xid still counts
# group: d-restart

scenario() {
    must insmod $OWN/kmsgtest.ko
    agent_start
    klog "NVRM: Xid (PCI:0000:3d:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No"
    until_metric 20 'selvage_gpu_xid_total{pci="0000:3d:00",xid="94"}' == 1
    wait_saved "(PCI:0000:3d:00): 94"
    agent_stop
    # While it is away.
    klog "NVRM: Xid (PCI:0000:9b:00): 119, pid=1240590, name=gpud, Timeout after 6s of waiting for RPC response from GPU4 GSP!"
    agent_start
    until_metric 30 'selvage_gpu_xid_total{pci="0000:9b:00",xid="119"}' == 1
    sleep 2
    holds 'selvage_gpu_xid_total{pci="0000:3d:00",xid="94"}' '>' 1 && fail "94 counted again: $SEEN"
    # By force: what was saved is not read again.
    wait_saved "(PCI:0000:9b:00): 119"
    agent_kill
    wait_for 5 "the end of the agent" agent_gone
    agent_start
    klog "NVRM: Xid (PCI:0000:ab:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."
    until_metric 30 'selvage_gpu_xid_total{pci="0000:ab:00",xid="63"}' == 1
    holds 'selvage_gpu_xid_total{pci="0000:9b:00",xid="119"}' '>' 1 && fail "119 counted again: $SEEN"
    true
}
