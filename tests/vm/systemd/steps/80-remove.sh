# what: a clean stop; removing stops the agent and keeps its state, purging leaves nothing
. /guest/unit.sh

scenario() {
    # systemd forgets how a unit ended that nothing refers to.
    must systemctl enable $UNIT
    must systemctl stop $UNIT
    expect_show ActiveState inactive
    expect_show Result success
    expect_show ExecMainCode 1 # it exited, of itself
    expect_show ExecMainStatus 0
    expect_journal 'selvage agent stopped'
    # All starts together; settings were refused once, on purpose.
    ! journalctl --quiet --no-pager -o cat -u $UNIT | grep ' ERROR ' | grep -v 'reload failed' ||
        fail "errors in the journal"

    must systemctl start $UNIT
    apt-get remove -y -q selvage || fail "apt-get remove fails"
    [ ! -e /sys/fs/cgroup/system.slice/$UNIT ] || fail "the agent runs on"
    ls /var/lib/selvage/* >/dev/null || fail "removing took the agent's state"
    apt-get purge -y -q selvage || fail "apt-get purge fails"
    rm -r /etc/selvage # the administrator's own
    [ ! -d "$DROP_IN" ] || rm -r "$DROP_IN"
    files | diff /var/log/files-before - || fail "purging leaves files, or took some: see the console"
    expect_show LoadState not-found
}
