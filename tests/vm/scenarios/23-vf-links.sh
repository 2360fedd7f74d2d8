# what: link states of virtual functions by rtnetlink: told, changed, switched off, too many to tell
# group: a-nic

# look "jq filter": the report of one look, whatever it comes to.
look() {
    selvage check -o json --config /guest/policy.toml >/run/check.json 2>/run/check.err || true
    jq -e "$1" /run/check.json >/dev/null ||
        fail "selvage check does not say $1: $(jq -c '.platform.sriov' /run/check.json 2>/dev/null | cut -c1-300) $(tail -n 1 /run/check.err)"
}

numvfs() { echo "$1" >/sys/class/net/testnic0/device/sriov_numvfs || fail "no $1 virtual functions"; }

scenario() {
    local i
    testnic 2 vfs=1
    for i in 0 1; do rxe rxe$i testnic$i; done
    for i in 0 1; do wait_for 10 "rxe$i ACTIVE" sys_state rxe$i 4; done
    [ "$(cat /sys/class/net/testnic0/device/sriov_numvfs)" = 0 ] || fail "virtual functions from the start"
    look '.state == "ready" and .platform.sriov == {}'

    # The kernel's own word first.
    numvfs 4
    must ip link set testnic0 vf 1 state disable
    must ip link set testnic0 vf 2 state enable
    ip link show testnic0 | grep -q 'vf 1 .*link-state disable' || fail "the kernel: $(ip link show testnic0)"
    look '.platform.sriov == {testnic0: {total: null, enabled: 4, drivers: {}, link_states: {auto: 2, enable: 1, disable: 1}, link_disabled: [1]}}'
    # Nobody promises functions here: no finding.
    look '.state == "ready" and ([.findings[].reason] | index("VfLinkDisabled")) == null'
    selvage check --config /guest/policy.toml >/run/check.txt 2>&1 || true
    grep -q '^Virtual functions switched off: testnic0 vf 1$' /run/check.txt || fail "the text: $(grep -i virtual /run/check.txt)"

    # The agent, from one scan to the next.
    agent_start
    until_report 30 '.platform.sriov.testnic0.link_disabled == [1]'
    for i in 0 3; do must ip link set testnic0 vf $i state disable; done
    until_report 30 '.platform.sriov.testnic0.link_disabled == [0, 1, 3]'
    for i in 0 1 3; do must ip link set testnic0 vf $i state auto; done
    until_report 30 '.platform.sriov.testnic0.link_disabled == []'
    until_metric 30 'selvage_source_up{source="vf_links"}' == 1

    # As many as fit into the attribute's length of 16 bits, and then as many as do not.
    numvfs 128
    must ip link set testnic0 vf 127 state disable
    until_report 30 '.platform.sriov.testnic0 | .enabled == 128 and .link_disabled == [127]'
    numvfs 2048
    until_report 30 '.platform.sriov == {} and .state == "ready"'
    until_metric 30 'selvage_source_up{source="vf_links"}' == 1
    until_report 30 '(.ports | length) == 2 and all(.ports[]; .state == "active")'
    numvfs 0
    until_report 30 '.platform.sriov == {}'
    agent_stop
}
