# The guest's file system: two cpio archives, the second appended to the
# first (the kernel unpacks both; no disk, no virtio).
# Sourced after modules.sh.

# Copies a command with its libraries into $1.
copy_command() {
    local root=$1 path lib
    path=$(command -v "$2") || die "no command $2 for the guest"
    path=$(readlink -f "$path")
    cp "$path" "$root/usr/bin/$2"
    copy_libraries "$root" "$path"
}

copy_libraries() {
    local root=$1 lib
    for lib in $(ldd "$2" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e "$root$lib" ] && continue
        mkdir -p "$root$(dirname "$lib")"
        cp -L "$lib" "$root$lib"
    done
}

# make_base FILE: tools and modules, no project binary.
make_base() {
    local out=$1 root applet cmd
    root=$(mktemp -d "$WORK/root.XXXXXX")
    mkdir -p "$root"/{bin,sbin,usr/bin,dev,proc,sys,tmp,run,var/log/pods,var/lib,etc/libibverbs.d,modules/stock,modules/own}
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"
    mkdir -p "$root/usr/lib" "$root/usr/lib64"

    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in $(busybox --list); do
        # busybox's own ip, tc and sh would hide the real ones.
        case "$applet" in busybox | ip | tc | sh | setpriv | insmod) continue ;; esac
        ln -s busybox "$root/bin/$applet"
    done
    ln -s busybox "$root/bin/insmod"
    for cmd in dash ip tc rdma ibv_rc_pingpong ibv_devinfo ethtool jq setpriv; do
        copy_command "$root" "$cmd"
    done
    ln -s ../usr/bin/dash "$root/bin/sh"

    # libibverbs finds the soft-RoCE provider by name at run time.
    local rxe=/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
    mkdir -p "$root$(dirname $rxe)"
    cp "$rxe" "$root$rxe"
    copy_libraries "$root" "$rxe"
    printf 'driver rxe\n' >"$root/etc/libibverbs.d/rxe.driver"
    printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"

    copy_stock_modules "$root/modules/stock"
    cp "$OWN_MODULES"/*.ko "$root/modules/own/"
    gcc -static -O2 -Wall -o "$root/usr/bin/vmtool" "$VM_DIR/tools/vmtool.c" ||
        die "vmtool does not build"
    pack "$root" "$out"
    rm -rf "$root"
}

pack() { (cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet) >"$2" || die "cpio failed"; }

# make_overlay FILE SCENARIO...: the guest's scripts, the binary under test
# and the list of what to run.
make_overlay() {
    local out=$1 root name
    shift
    root=$(mktemp -d "$WORK/overlay.XXXXXX")
    mkdir -p "$root/guest" "$root/scenarios" "$root/usr/local/bin"
    cp "$VM_DIR"/guest/* "$root/guest/"
    cp "$VM_DIR"/guest/init "$root/init"
    chmod 755 "$root/init"
    for name in "$@"; do
        cp "$VM_DIR/scenarios/$name.sh" "$root/scenarios/"
        printf '%s\n' "$name" >>"$root/scenarios/list"
    done
    cp "$BIN" "$root/usr/local/bin/selvage"
    chmod 755 "$root/usr/local/bin/selvage"
    pack "$root" "$out"
    rm -rf "$root"
}
