# Shared by every file of the rig: messages, paths, small helpers.
# Sourced, never run.

CLUSTER_CACHE="${SELVAGE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/selvage}/cluster"
PATH="$PATH:/usr/sbin:/sbin"
# How many times longer than on an idle machine things may take before a scenario gives up.
PATIENCE="${CLUSTER_PATIENCE:-4}"

say() { printf '%s\n' "cluster: $*" >&2; }

# A rig that cannot start is a failure, never a skip.
die() {
    printf '%s\n' "cluster: cannot run: $*" >&2
    exit 2
}

# Runs a command quietly; shows the end of its output only when it fails.
quietly() {
    local log rc=0
    log=$(mktemp "${TMPDIR:-/tmp}/selvage-cluster.XXXXXX") || return 1
    "$@" >"$log" 2>&1 || rc=$?
    [ "$rc" = 0 ] || tail -n 40 "$log" >&2
    rm -f "$log"
    return "$rc"
}
