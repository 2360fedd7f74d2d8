# what: how the kernel log can be read with the DaemonSet's rights
scenario() {
    local line
    mkdir -p "$W/dev-host/dev"
    # The machine's own /dev, at /host/dev as in the manifests.
    mount --bind /dev "$W/dev-host/dev" || fail "cannot bind /dev"
    for line in "syslog [SYSLOG]" "bare []"; do
        probe_pod "kmsg-${line% *}" "$W/dev-host" "${line#* }" pause:test '[kmsg, /host/dev/kmsg]' >/dev/null
        wait_for 30 "the probe ${line% *} has ended" ended "kmsg-${line% *}"
        pod_log "kmsg-${line% *}" | sed "s/^/MEASURED capabilities ${line#* }: /"
    done
    umount "$W/dev-host/dev"
    echo "MEASURED kernel.dmesg_restrict $(cat /proc/sys/kernel/dmesg_restrict)"
    # The device cgroup of an unprivileged container does not list 1:11 ...
    contains "open /host/dev/kmsg EPERM" pod_log kmsg-syslog || fail "/dev/kmsg: $(pod_log kmsg-syslog)"
    # ... so the agent reads by syslog(2), for which the manifests give CAP_SYSLOG.
    contains "syslog-3 ok" pod_log kmsg-syslog || fail "syslog(2): $(pod_log kmsg-syslog)"
    contains "syslog-10 ok" pod_log kmsg-syslog || fail "syslog(2): $(pod_log kmsg-syslog)"
    # And it is necessary: without it the call is refused.
    contains "syslog-3 EPERM" pod_log kmsg-bare || fail "without CAP_SYSLOG: $(pod_log kmsg-bare)"

    # The binary itself, on this machine's own /sys, /proc and /dev.
    for line in "with [SYSLOG]" "without []"; do
        probe_pod "real-${line% *}" / "${line#* }" "$IMAGE" '[check, -o, json, --host-root, /host]' >/dev/null
        wait_for 30 "the check ${line% *} CAP_SYSLOG has ended" ended "real-${line% *}"
    done
    is syslog kernel_log_of real-with .via || fail "with CAP_SYSLOG: $(kernel_log_of real-with .)"
    is true kernel_log_of real-with .up || fail "with CAP_SYSLOG: $(kernel_log_of real-with .)"
    is false kernel_log_of real-without .up || fail "without CAP_SYSLOG: $(kernel_log_of real-without .)"
    echo "MEASURED without CAP_SYSLOG: $(kernel_log_of real-without .fault)"
}

kernel_log_of() { # POD FILTER
    pod_log "$1" | jq -c -r ".sources[] | select(.source == \"kernel_log\") | $2"
}
