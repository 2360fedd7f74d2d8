# what: ibv_rc_pingpong moves the counters of both ports, to the kernel's values
# group: b-rxe

hw() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

scenario() {
    local d c before
    rxe_pair
    # By default only what tells of trouble is exported, and rxe has no PMA.
    agent_start --set counters.full=true
    until_metric 30 'selvage_port_hw_counter_total{device="rxeA",port="1",counter="sent_pkts"}' present
    before=$(now_value 'selvage_port_hw_counter_total{device="rxeA",counter="rdma_sends"}')
    must pingpong 200
    until_metric 40 'selvage_port_hw_counter_total{device="rxeA",counter="rdma_sends"}' '>=' $((before + 200))
    for d in rxeA rxeB; do
        for c in sent_pkts rcvd_pkts rdma_sends rdma_recvs; do
            until_metric 30 "selvage_port_hw_counter_total{device=\"$d\",counter=\"$c\"}" == "$(hw $d $c)"
        done
    done
    # Quiet again: an idle fabric is a healthy one.
    until_metric 30 'selvage_fabric_state{state="ready"}' == 1
}
