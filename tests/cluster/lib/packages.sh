# What the rig needs from Debian: a few host tools by apt; everything else is
# fetched with apt directories of our own and unpacked in the cache, so that
# nothing is installed and no service starts. Sourced after common.sh.

# command:package, for a control plane alone and for a whole node.
CONTROL_TOOLS="
jq:jq
openssl:openssl
python3:python3
curl:curl
flock:util-linux
"
HOST_TOOLS="$CONTROL_TOOLS
gcc:gcc
ip:iproute2
iptables:iptables
nsenter:util-linux
"
# Only when Kubernetes is to be built.
BUILD_TOOLS="
xz:xz-utils
"

missing_packages() { # LIST
    local entry
    for entry in $1; do
        command -v "${entry%%:*}" >/dev/null || printf '%s\n' "${entry##*:}"
    done
}

install_tools() { # LIST
    local want policy=/usr/sbin/policy-rc.d own_policy= rc=0
    want=$(missing_packages "$1" | sort -u | tr '\n' ' ')
    [ -n "${want% }" ] || return 0
    command -v apt-get >/dev/null || die "missing packages and no apt-get: $want"
    [ "$(id -u)" = 0 ] || die "not root; missing packages, install them first: apt-get install $want"
    say "installing $want"
    # No service is started by installing.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && own_policy=1
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive quietly apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $want || {
        quietly apt-get update
        DEBIAN_FRONTEND=noninteractive quietly apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $want || rc=1
    }
    [ -z "$own_policy" ] || rm -f "$policy"
    [ "$rc" = 0 ] || die "apt-get could not install: $want"
    want=$(missing_packages "$1" | sort -u | tr '\n' ' ')
    [ -z "${want% }" ] || die "still missing after apt-get install: $want"
}

# The machine's own Debian mirrors, one "URI SUITE" a line. Another mirror:
# SELVAGE_TEST_MIRROR=URI (then without the security suite).
mirrors() {
    if [ -n "${SELVAGE_TEST_MIRROR:-}" ]; then
        printf '%s bookworm\n' "$SELVAGE_TEST_MIRROR"
        return
    fi
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's/^\([^ ]* bookworm[^ ]*\) main$/\1/p' | sort -u
}

# Makes apt directories of our own below $1: "bookworm" (sources too) and,
# after the archive's keyring of today was taken from there, "trixie".
private_apt() { # DIR
    local dir=$1 base uri suite
    base=$(mirrors | sed -n 's/ bookworm$//p' | head -n 1)
    if [ -z "$base" ] && [ "$(id -u)" = 0 ]; then
        quietly apt-get update
        base=$(mirrors | sed -n 's/ bookworm$//p' | head -n 1)
    fi
    [ -n "$base" ] || die "no Debian bookworm among apt's sources; name a mirror in SELVAGE_TEST_MIRROR"
    for suite in bookworm trixie; do
        mkdir -p "$dir/$suite"/{none,cache,lists/partial} && : >"$dir/$suite/status"
    done
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keyring" ] || die "no $keyring (package debian-archive-keyring)"
    {
        mirrors | while read -r uri suite; do echo "deb [signed-by=$keyring] $uri $suite main"; done
        echo "deb-src [signed-by=$keyring] $base bookworm main"
    } >"$dir/bookworm/sources.list"
    quietly apt_in "$dir/bookworm" update || return 1
    # An older machine's keyring does not know trixie; bookworm vouches for the newer one.
    unpack_deb "$dir/bookworm" debian-archive-keyring "$dir/keyring" || return 1
    keyring="$dir/keyring/usr/share/keyrings/debian-archive-keyring.gpg"
    echo "deb [signed-by=$keyring] $base trixie main" >"$dir/trixie/sources.list"
    quietly apt_in "$dir/trixie" update
}

apt_in() { # APTDIR ARGS...
    local apt=$1
    shift
    # As root apt drops to the user _apt, which may not write here.
    apt-get -q -o APT::Sandbox::User=root -o Dir::Etc::sourcelist="$apt/sources.list" \
        -o Dir::Etc::sourceparts="$apt/none" -o Dir::Etc::preferencesparts="$apt/none" -o Dir::State::lists="$apt/lists" \
        -o Dir::Cache="$apt/cache" -o Dir::State::status="$apt/status" \
        -o Acquire::Retries=3 -o APT::Get::List-Cleanup=0 "$@"
}

# Downloads one package and unpacks it into DIR.
unpack_deb() { # APTDIR PACKAGE DIR
    local get
    get=$(mktemp -d "$1/get.XXXXXX") || return 1
    (cd "$get" && quietly apt_in "$1" download "$2") || return 1
    mkdir -p "$3"
    dpkg -x "$get"/*.deb "$3" || return 1
    rm -rf "$get"
}
