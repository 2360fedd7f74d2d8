# what: 400 Gb/s rails; one trains at half speed and is told from its peers
# group: a-nic

# What this kernel's rxe makes of the speed (6.1 knows no NDR): Gb/s, whole.
sys_gbps() { cut -d' ' -f1 "/sys/class/infiniband/$1/ports/1/rate"; }

scenario() {
    local i full
    testnic 4 pci=0000:01:00.0,0000:02:00.0
    for i in 0 1 2 3; do rxe rxe$i testnic$i; done
    for i in 0 1 2 3; do wait_for 10 "rxe$i ACTIVE" sys_state rxe$i 4; done
    full=$(sys_gbps rxe0)
    agent_start
    for i in 0 1 2 3; do
        until_metric 30 "selvage_port_rate_bytes_per_second{device=\"rxe$i\"}" == $((full * 125000000))
    done
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    nic 3 speed 10000
    [ "$(sys_gbps rxe3)" -lt "$full" ] || fail "the kernel still says $(sys_gbps rxe3)"
    until_metric 20 'selvage_port_rate_bytes_per_second{device="rxe3"}' == $(($(sys_gbps rxe3) * 125000000))
    until_report 60 '[.findings[] | select(.check == "link_rate" and .subject == "rxe3/1")] | length == 1'
    nic 3 speed 400000
    until_report 100 '[.findings[] | select(.check == "link_rate")] | length == 0'
}
