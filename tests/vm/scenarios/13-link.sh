# what: a link falls and comes back: port, verdict, reasons
# group: b-rxe

scenario() {
    local before
    rxe_pair
    agent_start
    until_metric 30 'selvage_port_up{device="rxeA"}' == 1
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    before=$(now_value 'selvage_port_link_transitions_total{device="rxeA"}')
    ip link set vb down
    until_metric 5 'selvage_port_up{device="rxeA"}' == 0
    until_metric 5 'selvage_port_up{device="rxeB"}' == 0
    until_metric 5 'selvage_port_state_id{device="rxeA"}' == 1
    until_metric 60 'selvage_fabric_state{state="ready"}' == 0
    until_report 30 '.reasons | index("LinkDown") != null'
    expect_report '[.findings[] | select(.subject == "rxeA/1" and .reason == "LinkDown" and (.remedy | length > 0))] | length == 1'
    until_metric 5 'selvage_finding{subject="rxeA/1",reason="LinkDown"}' present
    until_metric 5 'selvage_port_link_transitions_total{device="rxeA"}' == $((before + 1))
    ip link set vb up
    until_metric 10 'selvage_port_up{device="rxeA"}' == 1
    until_metric 5 'selvage_port_link_transitions_total{device="rxeA"}' == $((before + 2))
    until_metric 100 'selvage_fabric_state{state="ready"}' == 1
    until_metric 5 'selvage_finding{reason="LinkDown"}' absent
}
