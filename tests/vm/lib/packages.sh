# What the rig needs from Debian: host tools by apt, kernels and headers as
# unpacked .deb files in the cache (no kernel is ever installed).
# Sourced after common.sh.

# command:package, for everything the host or the guest image takes.
HOST_TOOLS="
qemu-system-x86_64:qemu-system-x86
busybox:busybox-static
dash:dash
ip:iproute2
rdma:iproute2
tc:iproute2
ibv_rc_pingpong:ibverbs-utils
ibv_devinfo:ibverbs-utils
ethtool:ethtool
jq:jq
setpriv:util-linux
depmod:kmod
modprobe:kmod
cpio:cpio
xz:xz-utils
gcc:gcc
make:make
flock:util-linux
"
# Files that have no command: path:package.
HOST_FILES="
/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so:ibverbs-providers
/usr/lib/x86_64-linux-gnu/libc.a:libc6-dev
"

PATH="$PATH:/usr/sbin:/sbin"

missing_packages() {
    local entry
    for entry in $HOST_TOOLS; do
        command -v "${entry%%:*}" >/dev/null || printf '%s\n' "${entry##*:}"
    done
    for entry in $HOST_FILES; do
        [ -e "${entry%%:*}" ] || printf '%s\n' "${entry##*:}"
    done
    # A dynamic busybox would need its libraries in the guest.
    if command -v busybox >/dev/null && ldd "$(command -v busybox)" >/dev/null 2>&1; then
        printf 'busybox-static\n'
    fi
}

apt_update_once() {
    [ -z "${APT_UPDATED:-}" ] || return 0
    [ "$(id -u)" = 0 ] || {
        say "apt lists are missing or stale, and only root can run apt-get update"
        return 0
    }
    say "apt-get update"
    quietly apt-get update || say "apt-get update reported an error; trying with the lists there are"
    APT_UPDATED=1
}

install_host_tools() {
    local want
    want=$(missing_packages | sort -u | tr '\n' ' ')
    [ -n "${want% }" ] || return 0
    command -v apt-get >/dev/null || die "missing packages and no apt-get: $want"
    [ "$(id -u)" = 0 ] || die "not root; missing packages, install them first: apt-get install $want"
    say "installing $want"
    # Suites that run side by side install one after the other.
    exec 8>/var/lock/selvage-apt && flock -w 600 8
    if ! DEBIAN_FRONTEND=noninteractive quietly apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $want; then
        apt_update_once
        DEBIAN_FRONTEND=noninteractive quietly apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $want ||
            die "apt-get could not install: $want"
    fi
    exec 8>&-
    want=$(missing_packages | sort -u | tr '\n' ' ')
    [ -z "${want% }" ] || die "still missing after apt-get install: $want"
}

meta_image() { case "$1" in 6.1) echo linux-image-amd64 ;; 6.12) echo linux-image-6.12-amd64 ;; esac }

# Candidate version of a package, empty when apt does not know it.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)'; }

# linux-* packages that a package depends on, without images and metas' noise.
linux_depends() {
    apt-cache show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Depends: //p' | tr ',' '\n' |
        sed 's/|.*//; s/([^)]*)//; s/ //g' | grep '^linux-'
}

# Sets KPKG (image package), KREL (uname -r), KVER (package version) for one
# kernel line. Names rotate with each security update, so they are asked for.
resolve_kernel() {
    local meta
    meta=$(meta_image "$1")
    KPKG=$(linux_depends "$meta" | grep '^linux-image-' | head -n 1)
    [ -n "$KPKG" ] || return 1
    KREL=${KPKG#linux-image-}
    KVER=$(candidate "$KPKG")
    [ -n "$KVER" ]
}

# Without a mirror: the newest of this line in the cache.
cached_kernel() {
    KDIR=$(ls -d "$VM_CACHE/linux-image-$1."*/complete 2>/dev/null | sort -V | tail -n 1)
    [ -n "$KDIR" ] || return 1
    KDIR=${KDIR%/complete}
    KREL=$(ls "$KDIR/image/lib/modules")
    say "kernel $1: no newer one to be had, using $(basename "$KDIR")"
}

# fetch_deb PACKAGE DIR: downloads into DIR; refreshes the lists once if the
# mirror has moved on.
fetch_deb() {
    local pkg=$1 dir=$2
    mkdir -p "$dir"
    # As root apt drops to the user _apt, which may not write here.
    (cd "$dir" && quietly apt-get -o APT::Sandbox::User=root download "$pkg")
}

# bootstrap DIR OPTION...: a Debian 12 in DIR, which mmdebstrap wants to be empty each time that it is tried.
bootstrap() {
    local dir=$1 mirror
    shift
    mirror=$("$VM_DIR/../lib/debian-mirror") || return 1
    "$VM_DIR/../lib/again" sh -c 'rm -rf "$0" && exec mmdebstrap --quiet --mode=root "$@"' "$dir" "$@" \
        bookworm "$dir" "$mirror"
}

# Unpacks the kernel and its headers into $KDIR (cache), once per version.
prepare_kernel() {
    local line=$1 try old
    for try in 1 2; do
        if resolve_kernel "$line"; then
            KDIR="$VM_CACHE/$KPKG-$KVER"
            [ ! -e "$KDIR/complete" ] || return 0
            say "kernel $line: fetching $KPKG $KVER and its headers"
            rm -rf "$KDIR"
            mkdir -p "$KDIR"
            if fetch_kernel_debs; then
                touch "$KDIR/complete"
                for old in "$VM_CACHE/linux-image-$line."*; do
                    [ "$old" = "$KDIR" ] || rm -rf "$old"
                done
                return 0
            fi
            rm -rf "$KDIR"
        fi
        # The mirror may have moved on since the lists were fetched.
        [ "$try" = 1 ] && apt_update_once
    done
    cached_kernel "$line" && return 0
    die "cannot fetch kernel $line ($(meta_image "$line")); is bookworm-security among apt's sources?"
}

fetch_kernel_debs() {
    local pkg headers="linux-headers-$KREL"
    fetch_deb "$KPKG" "$KDIR/deb" || return 1
    for pkg in $headers $(linux_depends "$headers" | grep -v '^linux-image'); do
        fetch_deb "$pkg" "$KDIR/deb-headers" || return 1
    done
    mkdir -p "$KDIR/image" "$KDIR/headers"
    for pkg in "$KDIR"/deb/*.deb; do dpkg -x "$pkg" "$KDIR/image" || return 1; done
    for pkg in "$KDIR"/deb-headers/*.deb; do dpkg -x "$pkg" "$KDIR/headers" || return 1; done
    # bookworm's images keep modules under /lib; a usrmerged package under /usr/lib.
    [ -d "$KDIR/image/lib/modules" ] || ln -s usr/lib "$KDIR/image/lib"
    depmod -b "$KDIR/image" "$KREL" || return 1
    # The headers package points at /usr/src; here it lives in the cache.
    sed -i "s#/usr/src/#$KDIR/headers/usr/src/#g" "$KDIR/headers/usr/src/linux-headers-$KREL/Makefile" || return 1
    rm -rf "$KDIR/deb" "$KDIR/deb-headers"
}
