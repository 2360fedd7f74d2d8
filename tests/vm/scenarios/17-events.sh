# what: events, not polls: with polls a minute apart, links and devices are seen at once
# group: b-rxe

scenario() {
    rxe_pair
    agent_start --set intervals.link=60s --set intervals.netdev=60s --set intervals.devices=60s
    until_metric 30 'selvage_port_up' == 2
    # The reads that follow the start.
    sleep 3
    ip link set vb down
    until_metric 3 'selvage_port_up{device="rxeA"}' == 0
    ip link set vb up
    until_metric 3 'selvage_port_up{device="rxeA"}' == 1
    # RDMA devices by MONITOR, which 6.1 has not.
    case "$(uname -r)" in 6.1.*) return ;; esac
    must rdma link delete rxeB
    until_metric 3 'selvage_port_up{device="rxeB"}' absent
    rxe rxeB vb
    until_metric 3 'selvage_port_up{device="rxeB"}' == 1
}
