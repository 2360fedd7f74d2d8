# what: flaps quicker than any poll, counted from carrier_changes
# group: a-nic

past_training() {
    awk '{ exit $1 < 10 }' /proc/uptime
}

scenario() {
    local before
    testnic 2
    rxe rxeT testnic0
    wait_for 10 "rxeT ACTIVE" sys_state rxeT 4
    agent_start
    until_metric 30 'selvage_port_up{device="rxeT"}' == 1
    until_metric 10 'selvage_port_link_transitions_total{device="rxeT"}' present
    # What a link does while it trains after the boot does not count as a flap.
    wait_for 60 "training to be over" past_training
    # The agent's own events must not have to see them: ten flaps inside one
    # write, which holds the lock that every reader of the state needs.
    before=$(now_value 'selvage_port_link_transitions_total{device="rxeT"}')
    nic 0 flap 10
    until_metric 10 'selvage_port_link_transitions_total{device="rxeT"}' == $((before + 20))
    expect 'selvage_port_up{device="rxeT"}' == 1
    until_report 60 '[.findings[] | select(.check == "link_flap" and .subject == "rxeT/1")] | length == 1'
}
