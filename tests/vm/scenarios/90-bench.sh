# what: latency from link event and kernel-log line to /metrics
# group: z-bench
# bench
# limit: 900

scenario() {
    local i
    testnic 2
    rxe rxe0 testnic0
    rxe rxe1 testnic1
    must insmod $OWN/kmsgtest.ko
    wait_for 10 "rxe0 ACTIVE" sys_state rxe0 4
    agent_start
    until_metric 30 'selvage_port_up{device="rxe0"}' == 1
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002"
    until_metric 30 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 1
    # Let start-up end.
    sleep 5
    must vmtool toggle 100 /sys/kernel/debug/testnic/testnic0/carrier 0 1 \
        selvage_port_up 'device="rxe0"' >/run/json
    must vmtool count 50 /sys/module/kmsgtest/parameters/say \
        "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002" \
        selvage_gpu_xid_total 'pci="0000:17:00"' >>/run/json
}
