# What the steps ask systemd. They source it.

UNIT=selvage.service
SETTINGS=/etc/selvage/selvage.toml
DROP_IN=/etc/systemd/system/$UNIT.d

# show PROPERTY: of the unit.
show() { systemctl show --property="$1" --value $UNIT; }
pid() { show MainPID; }

# show_is PROPERTY VALUE
show_is() {
    SEEN="$1=$(show "$1")"
    [ "$SEEN" = "$1=$2" ]
}
expect_show() { show_is "$@" || fail "$UNIT: $1=$2 expected, seen $SEEN"; }

# The journal of this start of the agent.
journal() { journalctl --quiet --no-pager -o cat "_SYSTEMD_INVOCATION_ID=$(show InvocationID)"; }
journal_has() { journal | grep -q -- "$1"; }
expect_journal() { journal_has "$1" || fail "the journal has no line with: $1"; }

# A number of this run, beside the results: note NAME VALUE
note() { echo "N $*" >$RESULTS; }

# until_node NAME: the agent goes by these settings; while it takes new ones over, it does not answer.
until_node() { wait_for 30 "the settings of the node \"$1\"" node_is "$1"; }
node_is() {
    SEEN=$(vmtool get /report 5000 2>/dev/null | jq -r .node)
    [ "$SEEN" = "$1" ]
}

another_pid() {
    SEEN="$(show ActiveState) $(pid)"
    case $SEEN in "active $1" | "active 0") false ;; "active "*) true ;; *) false ;; esac
}

# until_restarted SECONDS PID WHAT: systemd has started another process, which answers.
until_restarted() {
    wait_for "$1" "systemd to start another agent after $3" another_pid "$2"
    must vmtool get /healthz 5000 >/dev/null
}

# Every file but the package managers', logs, and what is here for the test.
files() {
    find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /guest \
        -o -path /var/lib/systemd \) -prune -o -print | sort
}
