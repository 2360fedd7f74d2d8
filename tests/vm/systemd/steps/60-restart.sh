# what: systemd restarts an agent that is killed, and by its watchdog one that is stuck
. /guest/unit.sh

scenario() {
    local pid begin
    pid=$(pid)
    kill -KILL "$pid"
    until_restarted 30 "$pid" "SIGKILL"
    expect_show NRestarts 1

    # As shipped a minute, and five seconds until the restart; here it need not take so long.
    mkdir -p "$DROP_IN"
    printf '[Service]\nWatchdogSec=8\nRestartSec=1\n' >"$DROP_IN/40-watchdog.conf"
    must systemctl daemon-reload
    must systemctl restart $UNIT
    pid=$(pid)
    begin=$(uptime_cs)
    kill -STOP "$pid"
    until_restarted 45 "$pid" "SIGSTOP"
    note watchdog_s $((($(uptime_cs) - begin) / 100))
    journalctl --quiet --no-pager -u $UNIT | grep -q 'Watchdog timeout' || fail "it was not the watchdog"
    rm "$DROP_IN/40-watchdog.conf"
    must systemctl daemon-reload
}
