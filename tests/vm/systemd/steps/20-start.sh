# what: active once it is ready, and not before; status, watchdog and `selvage check --agent`
. /guest/unit.sh

scenario() {
    rxe_pair
    never_ready
    if [ -e /guest/broken.conf ]; then
        mkdir -p "$DROP_IN"
        cp /guest/broken.conf "$DROP_IN/50-broken.conf"
        must systemctl daemon-reload
    fi
    must systemctl start $UNIT
    # At the first attempt: what systemd calls started serves.
    must vmtool get /healthz 5000
    expect_show ActiveState active
    expect_show Type notify
    expect_show NotifyAccess main
    expect_show WatchdogUSec 1min
    expect_show NRestarts 0
    until_report 30 '.ports | map(.device) | sort == ["rxeA", "rxeB"]'
    wait_for 30 "the verdict in the unit's status" verdict_is_shown
    note status "$(show StatusText)"
    [ "$(journal | grep -c 'selvage agent started')" = 1 ] || fail "the journal does not have one line of the start"
    # Asked at two moments: the verdict may change between them.
    wait_for 30 "check --agent to say what the unit's status does" check_agrees
}

check_agrees() {
    local state
    selvage check --agent -o json >/run/check || true # its status is the verdict
    state=$(jq -r .state /run/check)
    SEEN="$state, in the unit's status $(show StatusText)"
    [ -n "$state" ] && [ "$state" = "$(show StatusText | cut -d: -f1)" ]
}

# An agent that serves but never says READY=1 does not become active.
never_ready() {
    mkdir -p /run/systemd/system/$UNIT.d
    printf '[Service]\nUnsetEnvironment=NOTIFY_SOCKET\n' >/run/systemd/system/$UNIT.d/never.conf
    must systemctl daemon-reload
    must systemctl start --no-block $UNIT
    wait_for 30 "the agent to serve" vmtool get /healthz 5000
    expect_show ActiveState activating
    must systemctl stop $UNIT
    rm -r /run/systemd/system/$UNIT.d
    must systemctl daemon-reload
}

verdict_is_shown() {
    report_holds true
    SEEN=$(show StatusText)
    [ "$SEEN" = "$(jq -r 'if .reasons == [] then .state else .state + ": " + (.reasons | join(", ")) end' /run/r)" ]
}
