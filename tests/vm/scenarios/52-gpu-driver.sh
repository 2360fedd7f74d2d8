# what: one of two GPUs is on the bus without its driver, and gets it back
# group: f-pci
# machine: metal

scenario() {
    pci_identity 0000:01:00.0=10de:2330:030200 0000:02:00.0=10de:2330:030200
    must insmod $OWN/nvidia.ko gpus=0000:01:00.0,0000:02:00.0
    [ -e /sys/bus/pci/drivers/nvidia/0000:02:00.0 ] || fail "the stand-in did not bind the GPU"
    agent_start
    until_report 60 '[.sources[] | select(.source == "pci" and .up)] | length > 0'
    expect_report '[.findings[] | select(.reason == "GpuNotDriven")] | length == 0'
    echo 0000:02:00.0 >/sys/bus/pci/drivers/nvidia/unbind
    until_report 60 '[.findings[] | select(.reason == "GpuNotDriven" and .subject == "0000:02:00.0" and .status == "failing")] | length == 1'
    until_metric 10 'selvage_fabric_state{state="unready"}' == 1
    echo 0000:02:00.0 >/sys/bus/pci/drivers/nvidia/bind
    until_report 60 '[.findings[] | select(.reason == "GpuNotDriven")] | length == 0'
}
