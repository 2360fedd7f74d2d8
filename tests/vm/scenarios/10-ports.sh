# what: both ports found, with state, rate and GIDs as the kernel has them
# group: b-rxe

# In bytes a second, from the text of sysfs.
sys_rate() { awk '{ printf "%.0f", $1 * 1e9 / 8 }' "/sys/class/infiniband/$1/ports/1/rate"; }

scenario() {
    local d
    rxe_pair
    agent_start
    for d in rxeA rxeB; do
        until_metric 30 "selvage_port_up{device=\"$d\",port=\"1\"}" == 1
        until_metric 10 "selvage_port_state_id{device=\"$d\"}" == 4
        until_metric 10 "selvage_port_physical_state_id{device=\"$d\"}" == 5
        until_metric 10 "selvage_port_rate_bytes_per_second{device=\"$d\"}" == "$(sys_rate $d)"
    done
    until_metric 10 'selvage_port_info{device="rxeA",netdev="va",link_layer="ethernet"}' == 1
    until_metric 10 'selvage_port_info{device="rxeB",netdev="vb",link_layer="ethernet"}' == 1
    # One series a port, no more.
    expect 'selvage_port_up' == 2
    until_report 30 '[.ports[] | select(.state == "active" and .phys_state == "link_up")] | length == 2'
    expect_report '[.ports[].rate_bits_per_second] | all(. == '"$(($(sys_rate rxeA) * 8))"')'
    expect_report '.schema == "selvage.dev/report/v1" and .node == "vm-node" and (.boot_id | length > 0)'
    expect_report ".boot_id == \"$(cat /proc/sys/kernel/random/boot_id)\""
    # GIDs: RoCE v2, IPv4-mapped, of both ends
    expect_report '[.. | strings] | any(test("0a09:0*1\\b|10\\.9\\.0\\.1\\b"))'
    expect_report '[.. | strings] | any(test("0a09:0*2\\b|10\\.9\\.0\\.2\\b"))'
    wait_for 60 "/readyz" vmtool_ok /readyz
    until_metric 30 'selvage_fabric_state{state="ready"}' == 1
    agent_stop
}

vmtool_ok() { vmtool get "$1" 3000 >/dev/null; }
