# Network devices and soft-RoCE on them.

# Two ends of a veth pair in one network namespace. Routing rules, not a
# second namespace: rxe listens only in the first one.
veth_pair() {
    local i
    must ip link add va type veth peer name vb
    for i in va vb; do
        echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/$i/arp_ignore
    done
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    must ip addr add 10.9.0.1/24 dev va
    must ip addr add 10.9.0.2/24 dev vb
    ip link set va up
    ip link set vb up
    two_end_rules va vb
}

# two_end_rules A B: packets between 10.9.0.1 (on A) and 10.9.0.2 (on B)
# leave the machine's own table and really cross.
two_end_rules() {
    ip rule show | grep -q '^100:' || ip rule add pref 100 lookup local
    ip rule del pref 0 2>/dev/null || true # a scenario before may have deleted it
    ip rule add pref 10 iif lo to 10.9.0.2 lookup 1002
    ip rule add pref 11 iif lo to 10.9.0.1 lookup 1001
    two_end_routes "$1" "$2"
}

# A link that went down takes its routes with it.
two_end_routes() {
    ip route replace 10.9.0.2/32 dev "$1" src 10.9.0.1 table 1002
    ip route replace 10.9.0.1/32 dev "$2" src 10.9.0.2 table 1001
}

# rxe NAME NETDEV
rxe() { must rdma link add "$1" type rxe netdev "$2"; }

gid_ready() { grep -q '0000:0000:0000:0000:0000:ffff:0a09' /sys/class/infiniband/"$1"/ports/1/gids/* 2>/dev/null; }

sys_state() { [ "$(cut -d: -f1 "/sys/class/infiniband/$1/ports/1/state" 2>/dev/null)" = "$2" ]; }

# Both ends over veth, ACTIVE with IPv4 GIDs.
rxe_pair() {
    veth_pair
    rxe rxeA va
    rxe rxeB vb
    wait_for 10 "rxeA ACTIVE in sysfs" sys_state rxeA 4
    wait_for 10 "rxeB ACTIVE in sysfs" sys_state rxeB 4
    wait_for 10 "GIDs of rxeA" gid_ready rxeA
    wait_for 10 "GIDs of rxeB" gid_ready rxeB
}

# Index of the IPv4-mapped GID.
gid_index() { grep -l '0000:0000:0000:0000:0000:ffff:0a09' /sys/class/infiniband/"$1"/ports/1/gids/* | head -n 1 | sed 's#.*/##'; }

# pingpong ITERATIONS: rxeB serves, rxeA calls; true when both end well.
pingpong() {
    local server rc=0
    ibv_rc_pingpong -d rxeB -g "$(gid_index rxeB)" -n "$1" >/run/pp.server 2>&1 &
    server=$!
    # Its TCP port 18515 for the exchange of addresses.
    wait_for 20 "the pingpong server" grep -q ' [0-9A-F]*:4853 .* 0A ' /proc/net/tcp
    timeout 90 ibv_rc_pingpong -d rxeA -g "$(gid_index rxeA)" -n "$1" 127.0.0.1 >/run/pp.client 2>&1 || rc=$?
    [ $rc = 0 ] || kill $server 2>/dev/null
    wait $server || rc=$?
    [ $rc = 0 ] || { cat /run/pp.server /run/pp.client; }
    return $rc
}

# testnic COUNT [module parameters]
testnic() {
    local n=$1
    shift
    must insmod $OWN/testnic.ko count="$n" "$@"
    for n in /sys/kernel/debug/testnic/*; do
        ip link set "${n##*/}" up
    done
}

# nic N FILE VALUE: sets one thing of testnicN.
nic() { printf '%s\n' "$3" >"/sys/kernel/debug/testnic/testnic$1/$2" || fail "testnic$1/$2 refuses '$3'"; }
# nic_stat N "NAME +5" ...
nic_stat() {
    local i=$1 line
    shift
    for line in "$@"; do nic "$i" stat "$line"; done
}

# ib N FILE VALUE: sets one thing of testibN.
ib() { printf '%s\n' "$3" >"/sys/kernel/debug/testib/testib$1/$2" || fail "testib$1/$2 refuses '$3'"; }

# klog TEXT: a line of facility kernel. kdev BDF TEXT: dev_err() of that function.
kdev() { printf '%s\n' "$1|$2" >/sys/module/kmsgtest/parameters/dev || fail "kmsgtest knows no $1"; }
klog() { printf '%s\n' "$1" >/sys/module/kmsgtest/parameters/say; }

# pci_identity BDF=vendor:device:class...: functions with another identity,
# at 5 GT/s x16, found anew by the kernel.
pci_identity() {
    local f list bdf
    list=$(printf '%s,' "$@")
    must insmod $OWN/testpci.ko fake="${list%,}"
    for f in "$@"; do
        bdf=${f%%=*}
        echo 1 >"/sys/bus/pci/devices/$bdf/remove"
    done
    echo 1 >/sys/bus/pci/rescan
    for f in "$@"; do
        bdf=${f%%=*}
        [ -d "/sys/bus/pci/devices/$bdf" ] || fail "$bdf did not come back"
    done
}

# pci_set cap|link|dead BDF=VALUE
pci_set() { printf '%s\n' "$2" >"/sys/module/testpci/parameters/$1" || fail "testpci refuses $1 $2"; }
