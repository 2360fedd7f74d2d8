# One boot: run QEMU under a time limit, read results from the second serial
# port. Sourced after initramfs.sh.

# boot KERNEL_IMAGE INITRD DIR SECONDS [metal]: leaves DIR/console and DIR/results.
# Returns the guest's own status, 124 on the time limit, 125 when the guest
# died without a status. BOOT_MORE: more arguments of QEMU.
BOOT_MORE=()
boot() {
    local kernel=$1 initrd=$2 dir=$3 limit=$4 rc=0 cpu=max smbios=type=1
    # PCIe links and distances are judged on bare metal only; this looks like it.
    if [ "${5:-}" = metal ]; then
        cpu=max,-hypervisor
        smbios="type=1,manufacturer=Example,product=Server 8U"
    fi
    # Linux tests the timer's interrupts unless it sees a hypervisor, and panics where the emulator is late.
    : >"$dir/console"
    : >"$dir/results"
    # Two root ports, each with a function for testib and testpci to take.
    timeout --kill-after=10 "$limit" qemu-system-x86_64 \
        -machine q35 -accel tcg -cpu "$cpu" -smp 1 -m 768 \
        -smbios "$smbios" \
        -nodefaults -no-user-config -display none -no-reboot \
        -device pcie-root-port,id=rp1,bus=pcie.0,addr=4,slot=1,chassis=1,x-speed=16,x-width=16 \
        -device e1000e,bus=rp1 \
        -device pcie-root-port,id=rp2,bus=pcie.0,addr=5,slot=2,chassis=2,x-speed=16,x-width=16 \
        -device e1000e,bus=rp2 \
        -kernel "$kernel" -initrd "$initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check ${VM_APPEND:-}" \
        -serial "file:$dir/console" -serial "file:$dir/results" \
        -device isa-debug-exit,iobase=0xf4,iosize=4 \
        "${BOOT_MORE[@]}" \
        >"$dir/qemu" 2>&1 </dev/null &
    echo $! >"$dir/pid"
    wait $! || rc=$?
    rm -f "$dir/pid"
    case "$rc" in
    124 | 137) return 124 ;;
    esac
    # isa-debug-exit: the guest's N becomes 2N+1; even means it never spoke.
    [ $((rc % 2)) = 1 ] && [ "$rc" -lt 128 ] || return 125
    return $((rc >> 1))
}
