# The guest's own functions: scenarios one by one, HTTP, waiting, judging.
# Everything that waits has a deadline.

OWN=/modules/own
AGENT_LOG=/run/agent.log
# The second serial port; arm64's console is of another kind.
case $(uname -m) in aarch64) RESULTS=/dev/ttyS0 ;; *) RESULTS=/dev/ttyS1 ;; esac
STATE_DIR=/var/lib/selvage
SCENARIO_LIMIT=890

uptime_s() { cut -d' ' -f1 /proc/uptime; }
uptime_cs() { cut -d' ' -f1 /proc/uptime | tr -d .; }

say() { printf 'vm: [%s] %s\n' "$(uptime_s)" "$*"; }

# Ends the scenario with a reason.
fail() {
    printf '%s\n' "$*" >/run/reason
    say "FAIL: $*"
    exit 1
}

# Runs a command that has to work.
must() { "$@" || fail "command failed ($?): $*"; }

# ---- scenarios ----
#
# The kernel log outlives a scenario: one that writes Xids to it, and any that
# would mind, needs a group (a boot) of its own.

# By full path: busybox setsid would run its own sh, and that its own ip.
# The scenario has its own session, so that all it started can be ended;
# processes in D state excepted.
run_scenario() {
    local name=$1 pid dog rc begin end limit
    limit=$(sed -n 's/^# limit: *//p' "/scenarios/$name.sh")
    limit=${limit:-$SCENARIO_LIMIT}
    # Not after the last one, which ends with its machine anyway.
    [ -z "${RAN_BEFORE:-}" ] || reset_guest
    RAN_BEFORE=1
    rm -f /run/reason /run/json /run/agent.pid
    begin=$(uptime_cs)
    say "=== $name begins"
    setsid /bin/sh /guest/one.sh "$name" &
    pid=$!
    (
        sleep $limit
        echo "not done after $limit s" >/run/reason
        kill -s KILL -- -$pid
    ) &
    dog=$!
    rc=0
    wait $pid || rc=$?
    kill $dog 2>/dev/null
    end=$(uptime_cs)
    [ $rc = 0 ] || show_state
    # What it left running: an RDMA device cannot go while a process holds it.
    kill -s KILL -- -$pid 2>/dev/null
    say "=== $name ends, status $rc"
    [ ! -s /run/json ] || sed 's/^/J /' /run/json >$RESULTS
    if [ $rc = 0 ]; then
        echo "R $name ok $(((end - begin) / 100))" >$RESULTS
    else
        printf 'R %s FAIL %s %s\n' "$name" $(((end - begin) / 100)) "$(head -n 1 /run/reason 2>/dev/null || printf '%s' "a command failed, status $rc")" >$RESULTS
    fi
    return $rc
}

# What a person needs to see why; goes to the console.
show_state() {
    echo "--- metrics that are not 0"
    vmtool get /metrics | grep -v -e '^#' -e ' 0$' -e _counter_total -e selvage_source_ -e module_loaded -e '^process' | head -n 80
    echo "--- report"
    vmtool get /report | jq -c '.state, .reasons, .ports[]?, .findings[]?, (.sources[]? | select(.fault != null or .stalled_since != null))' | cut -c1-400 | head -n 60
    echo "--- agent log"
    tail -n 30 $AGENT_LOG
    echo "---"
}

# As it was before any scenario: no devices, no own modules, no agent.
reset_guest() {
    local m
    [ ! -e /sys/kernel/kmsgtest/hold ] || echo 0 >/sys/kernel/kmsgtest/hold
    for m in /sys/kernel/debug/testib/*/hold; do
        [ ! -e "$m" ] || echo 0 >"$m"
    done
    agent_kill
    awk '$2 ~ "^/sys/" && $1 != "debugfs" { print $2 }' /proc/mounts | while read -r m; do umount "$m"; done
    rdma link 2>/dev/null | sed -n 's#^link \([^/]*\)/.*#\1#p' | while read -r m; do
        [ -d "/sys/class/infiniband/$m/device" ] || rdma link delete "$m" 2>/dev/null
    done
    ip link delete va 2>/dev/null
    for m in testib testpci testnic kmsgtest nvidia_fs nvidia_peermem nvidia; do
        [ ! -d /sys/module/$m ] || rmmod $m || say "cannot unload $m"
    done
    ip rule del pref 0 2>/dev/null
    ip rule del pref 10 2>/dev/null
    ip rule del pref 11 2>/dev/null
    ip rule show | grep -q '^100:' || ip rule add pref 100 lookup local
    rm -rf $STATE_DIR $AGENT_LOG /run/m /run/r
    true
}

# ---- the agent ----

# As the DaemonSet does it: root with one capability and no way to more.
# AGENT_WRAP: a command that starts it.
agent_start() {
    mkdir -p $STATE_DIR
    ${AGENT_WRAP:-} /usr/bin/setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+syslog \
        selvage agent --listen 127.0.0.1:9949 --set agent.state_dir=$STATE_DIR \
        --config /guest/policy.toml --node-name vm-node "$@" >>$AGENT_LOG 2>&1 &
    AGENT_PID=$!
    echo $AGENT_PID >/run/agent.pid
    wait_for 30 "the agent to answer /healthz" agent_alive
}

agent_alive() {
    kill -0 "$AGENT_PID" 2>/dev/null || fail "the agent ended: $(tail -n 2 $AGENT_LOG | tr '\n' ' ')"
    vmtool get /healthz 3000 >/dev/null
}

# By SIGTERM, and it must end by itself with status 0.
agent_stop() {
    local rc=0
    kill -TERM "$AGENT_PID"
    wait_for 15 "the agent to end on SIGTERM" agent_gone
    wait "$AGENT_PID" || rc=$?
    [ $rc = 0 ] || fail "the agent ended with status $rc on SIGTERM"
    STOPPED=$AGENT_PID
}

agent_gone() {
    case "$(sed 's/.*) //' /proc/$AGENT_PID/stat 2>/dev/null)" in "" | Z*) true ;; *) false ;; esac
}

agent_kill() {
    [ -s /run/agent.pid ] || return 0
    kill -KILL "$(cat /run/agent.pid)" 2>/dev/null
    rm -f /run/agent.pid
}

# ---- waiting ----

# wait_for SECONDS "what" COMMAND...
wait_for() {
    # Six times what an idle machine surely needs: a late answer is not a wrong one. Emulated, a look takes a
    # tenth of a second of the real processor, and the guest may get a tenth of one.
    local limit=$(($1 * 6)) what=$2 end
    shift 2
    end=$(($(uptime_cs) + limit * 100))
    until "$@"; do
        [ "$(uptime_cs)" -lt $end ] || fail "waited $limit s for $what${SEEN:+; last seen: $SEEN}"
        sleep 0.6
    done
    SEEN=
}

# wait_saved TEXT: it is in the saved state, with how far the kernel log was read.
wait_saved() { wait_for 10 "$1 in memory.json" grep -qF "$1" $STATE_DIR/memory.json; }

file_is() { [ "$(cat "$2")" = "$1" ]; }

# ---- metrics ----

# Emulated on a busy machine, an agent that starts has taken more than five seconds.
scrape() { vmtool get /metrics 100000 >/run/m || fail "/metrics gave no answer within 100 s"; }

# value 'name{label="v",other="w"}': of the last scrape; the sum where several
# series match, nothing where none does. Labels not named may be anything.
value() {
    awk -v want="$1" '
    BEGIN {
        name = want; sub(/\{.*/, "", name)
        n = 0
        if (match(want, /\{.*\}/)) {
            rest = substr(want, RSTART + 1, RLENGTH - 2)
            while (match(rest, /[a-z_]+="[^"]*"/)) {
                label[++n] = substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
            }
        }
    }
    index($0, name) == 1 {
        after = substr($0, length(name) + 1, 1)
        if (after != "{" && after != " ") next
        for (i = 1; i <= n; i++)
            if (!index($0, "{" label[i]) && !index($0, "," label[i])) next
        sum += $NF; found = 1
    }
    END { if (found) printf "%.10g\n", sum }' /run/m
}

# holds 'metric{..}' OP NUMBER: on a fresh scrape. OP: == != > >= < <=, or
# absent / present without a number.
holds() {
    scrape
    SEEN=$(value "$1")
    case "$2" in
    absent) [ -z "$SEEN" ] ;;
    present) [ -n "$SEEN" ] ;;
    *)
        [ -n "$SEEN" ] || { SEEN=absent; return 1; }
        awk -v a="$SEEN" -v b="$3" "BEGIN { exit !(a $2 b) }"
        ;;
    esac
}

# until_metric SECONDS 'metric{..}' OP NUMBER
until_metric() {
    local limit=$1
    shift
    wait_for "$limit" "$*" holds "$@"
}

# expect 'metric{..}' OP NUMBER: now, at once.
expect() { holds "$@" || fail "expected $*, seen ${SEEN:-nothing}"; }

# now_value 'metric{..}': of a fresh scrape, 0 where absent.
now_value() {
    scrape
    local v
    v=$(value "$1")
    echo "${v:-0}"
}

# ---- report ----

report_holds() {
    vmtool get /report 100000 >/run/r || fail "/report gave no answer within 100 s"
    SEEN=$(jq -c '[.state, .reasons]' /run/r 2>/dev/null)
    jq -e "$1" /run/r >/dev/null
}

# until_report SECONDS 'jq filter'
until_report() { wait_for "$1" "report: $2" report_holds "$2"; }

expect_report() { report_holds "$1" || fail "expected in the report: $1; seen $SEEN"; }
