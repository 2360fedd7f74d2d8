# what: a query of one port hangs in D state: the others, /metrics and /healthz go on
# group: g-hang

# Is any thread of the agent uninterruptible?
agent_in_d() { cat /proc/"$AGENT_PID"/task/*/stat 2>/dev/null | sed 's/.*) //' | grep -q '^D'; }

threads_at_most() {
    SEEN=$(ls /proc/"$AGENT_PID"/task | wc -l)
    [ "$SEEN" -le "$1" ]
}

# The middle of ten answers, in hundredths of a second: a busy machine delays one or another.
middle() {
    local i=0 t0 all=
    while [ $i -lt 10 ]; do
        t0=$(uptime_cs)
        vmtool get "$1" 10000 >/dev/null || fail "$1 gave no answer while a port hangs"
        all="$all $(($(uptime_cs) - t0))"
        i=$((i + 1))
    done
    printf '%s\n' $all | sort -n | sed -n 5p
}

scenario() {
    local before slow
    must insmod $OWN/testib.ko count=3
    must insmod $OWN/kmsgtest.ko
    agent_start
    until_metric 30 'selvage_port_up' == 3
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    expect 'selvage_source_stalled' == 0
    ib 1 hold 1
    wait_for 30 "a thread of the agent in D state" agent_in_d
    until_metric 60 'selvage_source_stalled' '>=' 1
    slow=$(middle /metrics)
    [ "$slow" -lt 200 ] || fail "/metrics took $slow hundredths of a second"
    slow=$(middle /healthz)
    [ "$slow" -lt 200 ] || fail "/healthz took $slow hundredths of a second"
    # Neighbours are still watched, with events of their own.
    ib 0 phys 2
    ib 0 state 1
    until_metric 20 'selvage_port_up{device="testib0"}' == 0
    ib 0 phys 5
    ib 0 state 4
    until_metric 20 'selvage_port_up{device="testib0"}' == 1
    expect 'selvage_port_up{device="testib2"}' == 1
    klog "NVRM: Xid (PCI:0000:17:00): 31, pid=1942, name=train, Ch 00000002"
    until_metric 10 'selvage_gpu_xid_total{xid="31"}' == 1
    # Unknown is not healthy, and not a value made up either.
    until_report 30 '[.findings[] | select(.subject | test("testib1"))] | length > 0'
    # No thread more with each round. A pool's idle threads end after ten seconds.
    before=$(ls /proc/$AGENT_PID/task | wc -l)
    sleep 5
    wait_for 15 "no more than $((before + 1)) threads" threads_at_most $((before + 1))
    ib 1 hold 0
    until_metric 30 'selvage_source_stalled' == 0
    until_metric 30 'selvage_port_up{device="testib1"}' == 1
    until_metric 100 'selvage_fabric_state{state="ready"}' == 1
}
