# what: rails that come up one by one: never ready before the last of them, and never condemned
# group: a-nic

scenario() {
    local i
    testnic 4
    for i in 0 1 2 3; do rxe rxe$i testnic$i; done
    # Devices 0-1 and 2-3 are joined; each has a carrier of its own.
    for i in 1 2 3; do nic $i carrier 0; done
    wait_for 10 "rxe0 ACTIVE" sys_state rxe0 4
    for i in 1 2 3; do wait_for 10 "rxe$i DOWN" sys_state rxe$i 1; done
    agent_start
    until_metric 30 'selvage_port_up{device="rxe0"}' == 1
    for i in 1 2 3; do
        # Longer than any wait of a finding in the guest's policy.
        sleep 6
        expect 'selvage_fabric_ready' == 0
        expect 'selvage_fabric_state{state="unready"}' == 0
        nic $i carrier 1
        until_metric 20 "selvage_port_up{device=\"rxe$i\"}" == 1
    done
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    [ "$(now_value 'selvage_fabric_state_transitions_total{to="unready"}')" = 0 ] || fail "the node was unready once"
}
