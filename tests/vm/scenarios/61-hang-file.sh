# what: the same with one sysfs file of one port hanging, and the agent restarted into it
# group: g-hang

scenario() {
    local port=/sys/class/infiniband/rxeA/ports/1
    rxe_pair
    must insmod $OWN/kmsgtest.ko
    cat $port/rate >/sys/kernel/kmsgtest/text
    echo 1 >/sys/kernel/kmsgtest/hold
    must mount --bind /sys/kernel/kmsgtest/hang $port/rate
    must mount --bind /sys/kernel/kmsgtest/hang $port/state
    agent_start
    until_metric 40 'selvage_port_up{device="rxeB"}' == 1
    until_metric 60 'selvage_source_stalled' '>=' 1
    must vmtool get /healthz 100000
    # Not known is not 0.
    expect 'selvage_port_rate_bytes_per_second{device="rxeA"}' absent
    ip link set va down
    until_metric 20 'selvage_port_up{device="rxeB"}' == 0
    ip link set va up
    until_metric 20 'selvage_port_up{device="rxeB"}' == 1
    echo 0 >/sys/kernel/kmsgtest/hold
    until_metric 60 'selvage_source_stalled' == 0
}
