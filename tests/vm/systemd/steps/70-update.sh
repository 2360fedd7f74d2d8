# what: a newer package restarts an agent that runs, with the settings that it had
. /guest/unit.sh

scenario() {
    local pid
    pid=$(pid)
    apt-get install -y -q /packages/newer.deb || fail "apt-get install does not take the newer package"
    until_restarted 30 "$pid" "the update"
    [ "$(dpkg-query -W -f '${Version}' selvage)" = 99.0.0-1 ] || fail "another version is installed"
    until_node fourth
    [ "$(systemctl is-enabled $UNIT)" = disabled ] || fail "the update enabled the unit"
}
