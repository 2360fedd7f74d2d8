# what: the rig itself, without the agent: devices, knobs, hanging reads
# group: b-rig

has_stat() { ethtool -S testnic0 | grep -q "^ *$1: $2\$"; }

scenario() {
    # soft-RoCE over veth carries traffic
    rxe_pair
    must pingpong 20

    # testnic: rate, statistics that come with PFC, names, carrier
    testnic 2
    rxe rxeT testnic0
    wait_for 10 "rxeT ACTIVE" sys_state rxeT 4
    [ "$(cat /sys/class/net/testnic0/speed)" = 400000 ] || fail "speed of testnic0"
    ethtool -i testnic0 | grep -q '^driver: mlx5_core' || fail "driver name"
    ethtool -S testnic0 | grep -q rx_prio3_pause && fail "pause statistics with PFC off"
    nic 0 pfc_en 8
    nic_stat 0 "rx_prio3_pause 11" "rx_prio3_pause +1" "odd_name new"
    has_stat rx_prio3_pause 12 || fail "rx_prio3_pause is not 12"
    has_stat odd_name 0 || fail "no odd_name"
    nic_stat 0 "odd_name del"
    has_stat odd_name 0 && fail "odd_name still there"
    nic 0 carrier 0
    wait_for 10 "rxeT DOWN" sys_state rxeT 1
    nic 0 carrier 1
    wait_for 10 "rxeT ACTIVE again" sys_state rxeT 4
    local before
    before=$(cat /sys/class/net/testnic0/carrier_changes)
    nic 0 flap 5
    [ $(($(cat /sys/class/net/testnic0/carrier_changes) - before)) = 10 ] || fail "5 flaps are not 10 changes"

    # testib under a PCI function
    must insmod $OWN/testib.ko count=2 pci=0000:01:00.0
    [ "$(cat /sys/class/infiniband/testib0/ports/1/rate)" = "400 Gb/sec (4X NDR)" ] || fail "rate of testib0"
    [ "$(basename "$(readlink -f /sys/class/infiniband/testib0/device)")" = 0000:01:00.0 ] || fail "PCI parent of testib0"
    ib 0 counter "port_xmit_data 1000"
    [ "$(cat /sys/class/infiniband/testib0/ports/1/counters/port_xmit_data)" = 1000 ] || fail "port_xmit_data"
    ib 0 counter "out_of_sequence 7"
    wait_for 1 "out_of_sequence" file_is 7 /sys/class/infiniband/testib0/ports/1/hw_counters/out_of_sequence
    ib 1 hold 1
    cat /sys/class/infiniband/testib1/ports/1/state >/run/held &
    local reader=$!
    wait_for 5 "the reader in D state" grep -q '^[0-9]* (cat) D' /proc/$reader/stat
    kill -KILL $reader
    sleep 0.3
    grep -q '^[0-9]* (cat) D' /proc/$reader/stat || fail "the reader is not in D state: $(cat /proc/$reader/stat)"
    cat /sys/class/infiniband/testib0/ports/1/state >/dev/null || fail "the neighbour hangs too"
    ib 1 hold 0

    # kernel log
    must insmod $OWN/kmsgtest.ko
    klog "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."
    dmesg -r | grep -q '^<3>.*NVRM: Xid (PCI:0000:17:00): 79' || fail "no Xid line of facility kernel"
    echo "NVRM: Xid (PCI:0000:99:00): 48, x" >/dev/kmsg
    dmesg -r | grep -q '^<12>.*PCI:0000:99:00' || fail "a line of user space is not of facility 1: $(dmesg -r | tail -n 1)"

    # stubs
    must insmod $OWN/nvidia.ko gpus=0000:02:00.0
    must insmod $OWN/nvidia_peermem.ko
    must insmod $OWN/nvidia_fs.ko
    grep -q 'Open Kernel Module' /proc/driver/nvidia/version || fail "no driver version"
    grep -q 'Bus Location:' /proc/driver/nvidia/gpus/0000:02:00.0/information || fail "no GPU information"
    grep -q 'NVFS statistics' /proc/driver/nvidia-fs/stats || fail "no nvidia-fs statistics"

    # PCI: AER takes injected errors; a function gets another identity and link
    must vmtool aer 01 00 0 1 0
    wait_for 5 "RxErr counted" grep -q '^RxErr 1' /sys/bus/pci/devices/0000:01:00.0/aer_dev_correctable
    must rmmod testib
    pci_identity 0000:01:00.0=10de:2330:030200
    local dev=/sys/bus/pci/devices/0000:01:00.0
    [ "$(cat $dev/vendor $dev/device $dev/class | tr '\n' ' ')" = "0x10de 0x2330 0x030200 " ] || fail "identity: $(cat $dev/vendor $dev/device $dev/class)"
    [ "$(cat $dev/current_link_speed $dev/current_link_width $dev/max_link_width | tr '\n' ' ')" = "5.0 GT/s PCIe 16 16 " ] || fail "link: $(cat $dev/current_link_speed $dev/max_link_speed)"
    pci_set link 0000:01:00.0=1:4
    [ "$(cat $dev/current_link_speed $dev/current_link_width | tr '\n' ' ')" = "2.5 GT/s PCIe 4 " ] || fail "trained down: $(cat $dev/current_link_speed)"
}
