# Shared by every host-side file: messages, paths, small helpers.
# Sourced, never run.

VM_CACHE="${SELVAGE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/selvage}/vm"

say() { printf '%s\n' "vm: $*" >&2; }

# A rig that cannot start is a failure, never a skip.
die() {
    printf '%s\n' "vm: cannot run: $*" >&2
    exit 2
}

# Runs a command quietly; shows its output only when it fails.
quietly() {
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/selvage-vm.XXXXXX") || return 1
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        local rc=$?
        tail -n 40 "$log" >&2
        rm -f "$log"
        return "$rc"
    fi
}

# A digest of the files named, for cache keys. Content and path both count.
digest_of() { sha256sum "$@" | sha256sum | cut -c1-16; }
