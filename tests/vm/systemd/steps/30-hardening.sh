# what: systemd-analyze below 3; one capability; no write outside the state directory; no device but the kernel log
. /guest/unit.sh

scenario() {
    local pid score directory
    pid=$(pid)
    score=$(systemd-analyze security --no-pager $UNIT | sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p')
    note exposure "$score"
    awk -v score="${score:-10}" 'BEGIN { exit !(score < 3) }' || fail "systemd-analyze security: ${score:-no answer}"
    for line in CapBnd:0000000400000000 CapPrm:0000000400000000 CapEff:0000000400000000 CapInh:0000000000000000 \
        CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2; do
        tr -d '\t ' <"/proc/$pid/status" | grep -qx "$line" || fail "expected $line: $(grep "^${line%%:*}" "/proc/$pid/status")"
    done

    must in_mounts touch /var/lib/selvage/probe
    must in_mounts rm /var/lib/selvage/probe
    for directory in / /etc /usr/bin /var/lib /var/log /run /run/systemd/system /run/lock /sys/fs/cgroup /proc/sys/kernel /root /home; do
        ! in_mounts touch "$directory/probe" 2>/dev/null || fail "the agent could write below $directory"
    done
    ! in_mounts sh -c 'echo 0 >/proc/sys/kernel/dmesg_restrict' 2>/dev/null || fail "the agent could set a sysctl"
    touch /tmp/probe
    ! in_mounts test -e /tmp/probe || fail "the agent sees /tmp"
    rm /tmp/probe

    must in_cgroup dd if=/dev/kmsg of=/run/record bs=8192 count=1 status=none # a record at a time
    must head -c 1 /dev/vda >/dev/null
    ! in_cgroup sh -c 'echo probe >/dev/kmsg' 2>/dev/null || fail "the agent could write to the kernel log"
    ! in_cgroup head -c 1 /dev/vda >/dev/null 2>&1 || fail "the agent could read a disk"
    [ "$(cat /sys/fs/cgroup/system.slice/$UNIT/memory.max)" = $((128 << 20)) ] || fail "no limit of memory"
    note memory_peak_mib $(($(cat /sys/fs/cgroup/system.slice/$UNIT/memory.peak) >> 20))
}

in_mounts() { nsenter --target "$pid" --mount -- "$@"; }

in_cgroup() { sh -c 'echo $$ >/sys/fs/cgroup/system.slice/selvage.service/cgroup.procs && exec "$@"' sh "$@"; }
