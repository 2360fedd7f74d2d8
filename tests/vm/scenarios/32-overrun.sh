# what: the log's ring overruns the reader: the loss is counted, reading goes on
# group: d-overrun

scenario() {
    must insmod $OWN/kmsgtest.ko
    agent_start
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002"
    until_metric 30 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 1
    expect 'selvage_kmsg_records_lost_total' == 0
    # A reader that gets no processor while 20 000 lines go through the ring.
    kill -STOP $AGENT_PID
    echo 20000 >/sys/module/kmsgtest/parameters/flood
    kill -CONT $AGENT_PID
    until_metric 20 'selvage_kmsg_records_lost_total' '>' 10000
    klog "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus."
    until_metric 20 'selvage_gpu_xid_total{pci="0000:3d:00",xid="79"}' == 1
    expect 'selvage_gpu_xid_total{pci="0000:17:00",xid="31"}' == 1
    must vmtool get /healthz 100000
}
