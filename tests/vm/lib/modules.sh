# Kernel modules: the stock ones that the guest loads, in order of loading,
# and the project's own, built against the kernel's headers.
# Sourced after packages.sh; needs KDIR and KREL.

STOCK_MODULES="crc32_generic ib_core ib_uverbs rdma_rxe veth sch_netem aer_inject"

# Builds tests/vm/modules once per kernel and source digest; sets OWN_MODULES.
build_own_modules() {
    local src="$VM_DIR/modules" key work pahole=
    key=$(find "$src" -type f | sort | xargs sha256sum | cut -d' ' -f1 | sha256sum | cut -c1-16)
    OWN_MODULES="$KDIR/own-$key"
    [ ! -e "$OWN_MODULES/complete" ] || return 0
    say "building test modules for $KREL"
    rm -rf "$KDIR"/own-*
    mkdir -p "$OWN_MODULES"
    work="$OWN_MODULES/build"
    cp -r "$src" "$work"
    # BTF for modules would want pahole; nothing here needs it.
    quietly make -C "$KDIR/headers/usr/src/linux-headers-$KREL" M="$work" \
        CONFIG_DEBUG_INFO_BTF_MODULES= W= modules ||
        die "the test modules do not build for $KREL (see above)"
    find "$work" -name '*.ko' -exec cp {} "$OWN_MODULES/" \;
    # Own modules carry no signature, so stripping costs nothing.
    strip -g "$OWN_MODULES"/*.ko
    rm -rf "$work"
    touch "$OWN_MODULES/complete"
}

# copy_stock_modules DIR: plain .ko files into DIR and their order into
# DIR/order. Stock modules stay unstripped: stripping drops the signature and
# taints the guest's kernel.
copy_stock_modules() {
    local dir=$1 name line path base
    mkdir -p "$dir"
    : >"$dir/order"
    for name in $STOCK_MODULES; do
        modprobe -d "$KDIR/image" -S "$KREL" --show-depends "$name" >"$dir/depends" ||
            die "kernel $KREL has no module $name"
        while read -r line path _; do
            [ "$line" = insmod ] || continue
            base=$(basename "${path%.xz}" .ko)
            grep -qx "$base" "$dir/order" && continue
            case "$path" in
            *.xz) xz -dc "$path" >"$dir/$base.ko" ;;
            *) cp "$path" "$dir/$base.ko" ;;
            esac || die "cannot copy $path"
            printf '%s\n' "$base" >>"$dir/order"
        done <"$dir/depends"
    done
    rm -f "$dir/depends"
}
