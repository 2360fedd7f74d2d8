# what: apt installs the package; nothing is enabled or started by that
. /guest/unit.sh

scenario() {
    wait_for 60 "the end of the boot" booted
    files >/var/log/files-before
    apt-get install -y -q /packages/selvage.deb || fail "apt-get install does not take the package"
    [ "$(systemctl is-enabled $UNIT)" = disabled ] || fail "the installation enabled the unit"
    expect_show LoadState loaded
    expect_show ActiveState inactive
    [ "$(show ExecMainStartTimestampMonotonic)" = 0 ] || fail "the installation started the agent"
    complaints=$(systemd-analyze verify --man=no $UNIT 2>&1) || fail "systemd-analyze verify: $complaints"
    [ -z "$complaints" ] || fail "systemd-analyze verify: $complaints"
}

booted() {
    SEEN=$(systemctl is-system-running)
    [ "$SEEN" = running ]
}
