# what: `systemctl reload` takes new settings over; wrong ones are refused in the journal and the agent goes on
. /guest/unit.sh

scenario() {
    local pid
    mkdir -p "${SETTINGS%/*}"
    set_name first
    echo "SELVAGE_CONFIG=$SETTINGS" >>/etc/default/selvage
    must systemctl restart $UNIT
    until_node first
    pid=$(pid)

    set_name second
    must systemctl reload $UNIT
    until_node second
    [ "$(journal | grep -c 'selvage agent started')" = 2 ] || fail "the journal does not tell of the new settings"

    set_name 'third"
    no_such_setting = "1'
    must systemctl reload $UNIT # a signal: systemd does not hear what became of it
    wait_for 30 "the refusal in the journal" journal_has 'reload failed; .* current settings.*no_such_setting'
    node_is second || fail "the agent goes by other settings: $SEEN"
    expect_show ActiveState active
    expect_show NRestarts 0
    [ "$(pid)" = "$pid" ] || fail "the agent was restarted"

    set_name fourth
    must systemctl reload $UNIT
    until_node fourth
    [ "$(pid)" = "$pid" ] || fail "the agent was restarted"
}

set_name() { printf '[agent]\nnode_name = "%s"\n[cluster]\nmode = "off"\n' "$1" >$SETTINGS; }
