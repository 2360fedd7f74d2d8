# what: selvage check, once: exit status and reason, ready and with a rail down
# group: a-nic

check() {
    rc=0
    selvage check -o json $3 --config /guest/policy.toml >/run/check.json 2>/run/check.err || rc=$?
    [ $rc = "$1" ] || fail "selvage check ended with $rc, not $1: $(jq -c '[.state, .reasons, .findings]' /run/check.json 2>/dev/null | cut -c1-300) $(tail -n 1 /run/check.err)"
    jq -e "$2" /run/check.json >/dev/null || fail "selvage check does not say $2: $(cut -c1-300 /run/check.json)"
}

scenario() {
    local i
    testnic 4
    for i in 0 1 2; do rxe rxe$i testnic$i; done
    for i in 0 1 2; do wait_for 10 "rxe$i ACTIVE" sys_state rxe$i 4; done
    check 0 '.state == "ready" and (.ports | length) == 3' ''
    nic 1 carrier 0
    wait_for 10 "rxe1 DOWN" sys_state rxe1 1
    # Never seen up by this process, and rails of software have no make: nothing shows that it should be up.
    check 3 '.state == "unknown" and (.reasons | index("LinkUnproven") != null)' ''
    check 2 '.state == "unready" and (.reasons | index("LinkDown") != null)' --set=policy.expect.rails=3
    selvage check --config /guest/policy.toml >/run/check.txt 2>&1 || true # its status is the verdict
    grep -q rxe1 /run/check.txt || fail "the table does not name rxe1"
}
