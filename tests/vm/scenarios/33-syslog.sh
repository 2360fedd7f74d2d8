# what: the log by syslog(2): counts as /dev/kmsg does, each line once, over restarts, gaps told
# group: b-syslog

XID='selvage_gpu_xid_total'

# What one `selvage check` by this access path reports about the log, as JSON.
look() {
    # Its status is the verdict.
    setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+syslog \
        selvage check -o json --config /guest/policy.toml --set agent.state_dir= --set "agent.kmsg_source=$1" >/run/look || true
    jq -e "[.sources[] | select(.source == \"kernel_log\" and .via == \"$1\")] | length == 1" /run/look >/dev/null || return
    # Each run computes wall time again.
    jq -c '[[.xid[] | del(.first, .last)], [.findings[] | select(.check == "xid" or .check == "nic_kernel") | [.reason, .subject]]]' /run/look
}

read_by() { until_report 30 "[.sources[] | select(.source == \"kernel_log\" and .up and .via == \"$1\")] | length == 1"; }

scenario() {
    must insmod $OWN/kmsgtest.ko
    echo 1 >/proc/sys/kernel/dmesg_restrict
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002, intr 00000000. MMU Fault: ENGINE GRAPHICS"
    agent_start --set agent.kmsg_source=syslog
    read_by syslog
    until_metric 30 $XID'{pci="0000:17:00",xid="31"}' == 1
    # The same text again is an event again.
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002, intr 00000000. MMU Fault: ENGINE GRAPHICS"
    until_metric 10 $XID'{pci="0000:17:00",xid="31"}' == 2
    klog "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged"
    until_metric 10 'selvage_nic_kernel_events_total{pci="0000:5e:00.0",event="nic_cable_unplugged"}' == 1

    # What user space writes does not count, nor a line break within its text.
    echo "NVRM: Xid (PCI:0000:99:00): 48, An uncorrectable double bit error (DBE) has been detected" >/dev/kmsg
    echo "<3>NVRM: Xid (PCI:0000:99:00): 95, Uncontained" >/dev/kmsg
    printf '<3>a\nNVRM: Xid (PCI:0000:99:00): 95, Uncontained' >/dev/kmsg
    klog "NVRM: Xid (PCI:0000:3d:00): 94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No"
    until_metric 10 $XID'{pci="0000:3d:00",xid="94"}' == 1
    expect $XID'{pci="0000:99:00"}' absent

    # A restart in the good way, by force, and by the other way to the log and back.
    wait_saved "(PCI:0000:3d:00): 94"
    agent_stop
    klog "NVRM: Xid (PCI:0000:9b:00): 119, pid=1240590, name=gpud, Timeout after 6s of waiting for RPC response from GPU4 GSP!"
    agent_start --set agent.kmsg_source=syslog
    until_metric 30 $XID'{pci="0000:9b:00",xid="119"}' == 1
    wait_saved "(PCI:0000:9b:00): 119"
    agent_kill
    wait_for 5 "the end of the agent" agent_gone
    klog "NVRM: Xid (PCI:0000:ab:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."
    agent_start --set agent.kmsg_source=device
    read_by device
    until_metric 30 $XID'{pci="0000:ab:00",xid="63"}' == 1
    wait_saved "(PCI:0000:ab:00): 63"
    agent_stop
    klog "NVRM: Xid (PCI:0000:ab:00): 79, GPU has fallen off the bus."
    # Refused, as by the device cgroup of a container: auto takes the other way.
    must chmod 000 /dev/kmsg
    agent_start
    read_by syslog
    until_metric 30 $XID'{pci="0000:ab:00",xid="79"}' == 1
    sleep 2
    expect $XID'{pci="0000:17:00",xid="31"}' == 2
    expect $XID'{pci="0000:3d:00",xid="94"}' == 1
    expect $XID'{pci="0000:9b:00",xid="119"}' == 1
    expect $XID'{pci="0000:ab:00",xid="63"}' == 1
    expect 'selvage_kmsg_records_lost_total' == 0

    # Both ways tell the same of one log.
    must chmod 644 /dev/kmsg
    local device syslog
    device=$(look device)
    syslog=$(look syslog)
    [ "$device" = "$syslog" ] || fail "device: $device; syslog: $syslog"
    case "$device" in *'79'*) ;; *) fail "a look saw nothing: $device" ;; esac

    # A reader that gets no processor while 20 000 lines go through the ring.
    kill -STOP $AGENT_PID
    echo 20000 >/sys/module/kmsgtest/parameters/flood
    kill -CONT $AGENT_PID
    until_metric 20 'selvage_kmsg_records_lost_total' '>' 0
    klog "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus."
    until_metric 20 $XID'{pci="0000:3d:00",xid="79"}' == 1
    expect $XID'{pci="0000:17:00",xid="31"}' == 2
    until_report 10 '[.findings[] | select(.reason == "KernelLogLost")] | length == 1'
    # What looking at a full ring each second costs.
    local ticks begin
    begin=$(awk '{ print $14 + $15 }' /proc/$AGENT_PID/stat)
    sleep 20
    ticks=$(awk '{ print $14 + $15 }' /proc/$AGENT_PID/stat)
    say "20 s with a full ring of $(dmesg | wc -lc | tr -s ' '): $((ticks - begin)) ticks of the processor"

    # Cleared under the reader, it goes on.
    dmesg -c >/dev/null
    klog "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus."
    until_metric 20 $XID'{pci="0000:3d:00",xid="79"}' == 2

    # Without stamps no line can be told from another.
    echo N >/sys/module/printk/parameters/time
    until_report 30 '[.findings[] | select(.reason == "KernelLogBlind")] | length == 1'
    echo Y >/sys/module/printk/parameters/time
    until_report 30 '[.findings[] | select(.reason == "KernelLogBlind")] | length == 0'
    expect $XID'{pci="0000:3d:00",xid="79"}' == 2
    agent_stop

    # Neither way: told, with what is lacking.
    must chmod 000 /dev/kmsg
    setpriv --no-new-privs --inh-caps=-all --bounding-set=-all \
        selvage check -o json --config /guest/policy.toml --set agent.state_dir= >/run/look || true
    jq -e '[.findings[] | select(.reason == "KernelLogBlind" and (.remedy | contains("CAP_SYSLOG")))] | length == 1' /run/look >/dev/null ||
        fail "no KernelLogBlind: $(head -c 300 /run/look)"
    chmod 644 /dev/kmsg
    echo 0 >/proc/sys/kernel/dmesg_restrict
}
