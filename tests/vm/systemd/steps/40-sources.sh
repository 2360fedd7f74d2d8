# what: under the hardening the agent reads what root reads without it, the kernel log too
. /guest/unit.sh

scenario() {
    expect 'selvage_source_up{source="kernel_log"}' == 1
    expect 'selvage_port_up{device="rxeA"}' == 1
    must insmod $OWN/kmsgtest.ko
    # What user space writes does not count.
    echo "<3>NVRM: Xid (PCI:0000:99:00): 48, An uncorrectable double bit error (DBE) has been detected" >/dev/kmsg
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002, intr 00000000. MMU Fault: ENGINE GRAPHICS"
    until_metric 30 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 1
    expect 'selvage_gpu_xid_total{pci="0000:99:00"}' absent
    selvage check -o json >/run/free || true # its status is the verdict
    wait_for 30 "the sources that root reads" same_sources
}

# The one-shot command without any of the unit's limits is the measure.
same_sources() {
    vmtool get /report 5000 >/run/r || return 1
    SEEN="only with limits, only without: $(jq -nc --slurpfile limits /run/r --slurpfile free /run/free '
        def sources: [.sources[] | select(.absent | not) | {source, subject, via, up}];
        [$limits[0] | sources] + [$free[0] | sources] | [.[0] - .[1], .[1] - .[0]]')"
    [ "${SEEN##*: }" = "[[],[]]" ]
}
