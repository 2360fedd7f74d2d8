# what: no thread can be made at the agent's start: it says what is missing, and makes up for it without a restart
# limit: 200
scenario() {
    local tree pid limit task down lifted up
    tree=$(simulate h100_ib)
    # Its limit must be there before its first thread is: until then another program holds its place.
    cp "$D/podtool" "$tree/podtool"
    COMMAND='["/host/podtool", "hold", "/host/go", "/selvage"]' deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 60 "its place is held" held
    limit=$(cgroup_file "$pid" pids pids.max pids.max)
    echo 3 >"$limit" || fail "no limit in $limit"
    touch "$tree/go"

    wait_for 30 "a task that cannot be started" contains "cannot be started" agent_log
    wait_for 20 "it serves what it has" contains selvage_build_info agent_metrics
    is 0 agent_metric selvage_source_up 'source="kernel_log"' || fail "the kernel log is up without a thread"
    is 0 agent_metric selvage_source_up 'source="pod_logs"' || fail "the logs of pods are up without a thread"
    # On a host a log that is not read makes the verdict unknown; here it is a notice.
    # No verdict goes without.
    holds_for 15 "no verdict, or one that names the kernel log" admits
    wait_for 40 "it names the kernel log" names_the_log
    down=$(agent_metrics | sed -n 's/^selvage_task_up{task="\(.*\)"} 0$/\1/p' | tr '\n' ' ')
    for task in kernel_log pod_logs state tcp_watch; do
        case " $down" in *" $task "*) ;; *) fail "$task is up without a thread; down are $down" ;; esac
    done

    lifted=$(now_ms)
    echo max >"$limit"
    wait_for 60 "every task is up" is 0 tasks_down
    up=$(($(now_ms) - lifted))
    wait_for 20 "the kernel log is read" not names_the_log
    wait_for 60 "the label" is ready node_label fabric
    wait_for 60 "the agent is ready" agent_ready
    echo "4,2000000,86342000000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus." >>"$tree/dev/kmsg"
    wait_for 20 "an Xid reaches the verdict" is unready node_label fabric
    [ "$(agent_restarts)" = 0 ] || fail "$(agent_restarts) restarts of the agent"
    echo "MEASURED not up without threads: ${down% }; all up $up ms after there were threads again, without a restart"
}

admits() { agent_report | jq -e '(.full_window | not) or any(.findings[]; .reason == "KernelLogBlind")'; }
names_the_log() { agent_report | jq -e 'any(.findings[]; .reason == "KernelLogBlind")'; }
held() {
    pid=$(agent_pid) && [ -n "$pid" ] && grep -q podtool "/proc/$pid/cmdline"
}
tasks_down() { agent_metrics >"$W/tasks" && grep -c '^selvage_task_up{.*} 0$' "$W/tasks"; }
