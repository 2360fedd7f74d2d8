# what: PFC: a pause storm, drops on a lossless priority, and their end
# group: a-nic

# N seconds of a peer that pauses us more than half of the time.
storm() {
    local i=0
    while [ $i -lt "$1" ]; do
        nic_stat 0 "rx_prio3_pause +20000" "rx_prio3_pause_duration +900000" "rx_prio3_pause_transition +10000"
        sleep 1
        i=$((i + 1))
    done
}

drops() {
    local i=0
    while [ $i -lt "$1" ]; do
        nic_stat 0 "rx_prio3_discards +500"
        sleep 1
        i=$((i + 1))
    done
}

scenario() {
    local before pid
    testnic 2
    rxe rxe0 testnic0
    rxe rxe1 testnic1
    nic 0 pfc_en 8
    nic_stat 0 "rx_prio3_pause 100" "rx_prio3_pause_duration 5000" "rx_prio3_discards 40"
    wait_for 10 "rxe0 ACTIVE" sys_state rxe0 4
    agent_start
    until_metric 30 'selvage_pfc_enabled{netdev="testnic0",priority="3"}' == 1
    # A priority that has PFC nowhere on the node has no series.
    expect 'selvage_pfc_enabled{netdev="testnic0",priority="0"}' absent
    expect 'selvage_pfc_enabled{netdev="testnic1",priority="3"}' == 0
    until_metric 30 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="3",direction="receive"}' == 100
    until_metric 10 'selvage_pfc_pause_seconds_total{netdev="testnic0",priority="3",direction="receive"}' == 0.005
    until_metric 10 'selvage_pfc_discards_total{netdev="testnic0",priority="3"}' == 40
    # What was there before the agent is no fault.
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1

    storm 60 &
    pid=$!
    until_metric 60 'selvage_pfc_pause_seconds_total{netdev="testnic0",priority="3",direction="receive"}' '>' 3
    until_report 60 '[.findings[] | select((.subject | test("testnic0|rxe0")) and (tostring | test("pause"; "i")))] | length > 0'
    kill $pid
    until_report 100 '[.findings[] | select(tostring | test("pause"; "i"))] | length == 0'

    drops 60 &
    pid=$!
    until_metric 60 'selvage_pfc_discards_total{netdev="testnic0",priority="3"}' '>' 1000
    until_report 60 '[.findings[] | select((.subject | test("testnic0|rxe0")) and (tostring | test("discard|drop"; "i")))] | length > 0'
    kill $pid
    until_report 100 '[.findings[] | select(tostring | test("discard|drop"; "i"))] | length == 0'
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
}
