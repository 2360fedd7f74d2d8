# what: loss by netem moves retry counters, is judged, and the verdict clears
# group: b-loss

scenario() {
    local load=
    rxe_pair
    agent_start
    until_metric 30 'selvage_port_hw_counter_total{device="rxeA",counter="completer_retry_err"}' present
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    must tc qdisc add dev va root netem loss 10%
    # Ended by the file, not by force: on 6.12 an rxe device does not always go
    # away after the processes on it were killed with packets under way.
    while [ ! -e /run/enough ]; do (pingpong 100) || sleep 1; done &
    load=$!
    until_metric 60 'selvage_port_hw_counter_total{device="rxeA",counter="completer_retry_err"}' '>=' 5
    until_metric 30 'selvage_port_hw_counter_total{device="rxeA",counter="duplicate_request"}' '>=' 1
    until_report 60 '[.findings[] | select((.subject | test("rxe")) and .status != "ok" and (tostring | test("retry|retrans|duplicate|sequence|out_of_seq"; "i")))] | length > 0'
    until_metric 5 'selvage_finding{subject="rxeA/1"}' present
    touch /run/enough
    must tc qdisc del dev va root
    # A client that ended while its last answer was lost leaves a server behind that rxe lets retry
    # for ever: then the loss would not end. No other scenario shares this boot.
    local rounds=0
    while kill -0 $load 2>/dev/null && [ $rounds -lt 20 ]; do
        sleep 1
        rounds=$((rounds + 1))
    done
    killall -9 ibv_rc_pingpong 2>/dev/null || true
    until_report 100 '[.findings[] | select((.subject | test("rxe")) and (tostring | test("retry|retrans|duplicate|sequence|out_of_seq"; "i")))] | length == 0'
    wait $load || true
}
