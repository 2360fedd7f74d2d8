# what: a device removed, added again, renamed: no stale series
# group: b-rxe

# Of any family: nothing but the finding may still name it.
no_series() {
    scrape
    SEEN=$(grep -v '^selvage_finding' /run/m | grep "device=\"$1\"" | head -n 1)
    [ -z "$SEEN" ]
}

scenario() {
    rxe_pair
    agent_start
    until_metric 30 'selvage_port_up' == 2
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1

    must rdma link delete rxeB
    until_metric 20 'selvage_port_up{device="rxeB"}' absent
    wait_for 20 "no series of rxeB" no_series rxeB
    until_report 30 '[.ports[].device] == ["rxeA"]'
    until_report 60 '[.findings[] | select(.subject | test("rxeB"))] | length > 0'

    rxe rxeB vb
    until_metric 20 'selvage_port_up{device="rxeB"}' == 1
    until_report 30 '[.ports[].device] | sort == ["rxeA", "rxeB"]'
    until_metric 100 'selvage_fabric_state{state="ready"}' == 1

    # The kernel says nothing of a rename on these versions: found by polling.
    must rdma dev set rxeB name rxeZ
    until_metric 75 'selvage_port_up{device="rxeZ"}' == 1
    until_metric 20 'selvage_port_up{device="rxeB"}' absent
    wait_for 20 "no series of rxeB" no_series rxeB
    expect 'selvage_port_up' == 2
    until_metric 100 'selvage_fabric_state{state="ready"}' == 1
}
