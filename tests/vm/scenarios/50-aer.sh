# what: AER errors injected under a NIC's function are counted and told
# group: h-aer
# machine: metal

scenario() {
    pci_identity 0000:01:00.0=15b3:1021:020700
    must insmod $OWN/testib.ko count=1 pci=0000:01:00.0
    agent_start
    until_metric 30 'selvage_port_up{device="testib0"}' == 1
    until_metric 10 'selvage_port_info{device="testib0",pci="0000:01:00.0"}' == 1
    must vmtool aer 01 00 0 1 0
    must vmtool aer 01 00 0 0 4000
    grep -q '^CmpltTO 1' /sys/bus/pci/devices/0000:01:00.0/aer_dev_nonfatal || sleep 1
    grep -q '^CmpltTO 1' /sys/bus/pci/devices/0000:01:00.0/aer_dev_nonfatal || fail "the kernel counted no CmpltTO"
    until_metric 20 'selvage_nic_kernel_events_total{pci="0000:01:00.0",event="pcie_aer"}' '>=' 1
    until_report 75 '[.findings[] | select(.check == "pcie_link" and .subject == "testib0" and .evidence.severity == "nonfatal")] | length == 1'
}
