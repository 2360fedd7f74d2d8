# what: how the kernel log can be read with the DaemonSet's rights
scenario() {
    local line
    mkdir -p "$W/dev-host"
    mountpoint -q "$W/dev-host" || mkdir -p "$W/dev-host/dev"
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
    pod_log kmsg-syslog | grep -qx 'open /host/dev/kmsg EPERM' || fail "kmsg: $(pod_log kmsg-syslog | head -n 1)"
    # ... so the agent reads by syslog(2), for which the manifests give CAP_SYSLOG.
    pod_log kmsg-syslog | grep -qx 'syslog-3 ok' || fail "syslog(2): $(pod_log kmsg-syslog)"
    pod_log kmsg-syslog | grep -qx 'syslog-10 ok' || fail "syslog(2): $(pod_log kmsg-syslog)"
    # And it is necessary: without it seccomp's default profile refuses.
    pod_log kmsg-bare | grep -qx 'syslog-3 EPERM' || fail "without CAP_SYSLOG: $(pod_log kmsg-bare)"
}
