# what: a NIC in a slot that is too slow for its port trains down on PCIe, and up again; a GPU falls off the bus
# group: f-pci
# machine: metal

scenario() {
    pci_identity 0000:01:00.0=15b3:1021:020700 0000:02:00.0=10de:2330:030200
    must insmod $OWN/nvidia.ko gpus=0000:02:00.0
    must insmod $OWN/testib.ko count=1 pci=0000:01:00.0
    agent_start
    until_metric 30 'selvage_port_info{device="testib0",pci="0000:01:00.0",driver="mlx5_core"}' == 1
    # QEMU's slot is far too slow for the port's rate, and both ends agree on it.
    until_report 60 '[.findings[] | select(.reason == "PciePathTooSlow")] | length == 1'
    until_metric 10 'selvage_fabric_state{state="degraded"}' == 1
    pci_set link 0000:01:00.0=2:4
    until_report 75 '[.findings[] | select(.check == "pcie_link" and (tostring | test("5 GT/s x4")))] | length == 1'
    pci_set link 0000:01:00.0=2:16
    until_report 75 '[.findings[] | select(.reason == "PcieWidthReduced")] | length == 0'
    # Config space that reads all ones.
    pci_set dead 0000:02:00.0=1
    until_report 75 '[.findings[] | select(.check == "device_missing" and (.subject | startswith("0000:02:00")))] | length == 1'
    until_metric 10 'selvage_fabric_state{state="unready"}' == 1
    pci_set dead 0000:02:00.0=0
}
