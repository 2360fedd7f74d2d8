# what: bits that the link corrects: a ratio that is ordinary, one that is too high, and its end
# group: a-nic

# corrected N BITS: for N seconds as many corrected bits, of 400 Gb received each second.
corrected() {
    local i=0
    while [ $i -lt "$1" ]; do
        nic_stat 0 "rx_bits_phy +400000000000" "rx_corrected_bits_phy +$2"
        sleep 1
        i=$((i + 1))
    done
}

scenario() {
    local pid
    testnic 2
    rxe rxe0 testnic0
    rxe rxe1 testnic1
    nic_stat 0 "rx_bits_phy new"
    wait_for 10 "rxe0 ACTIVE" sys_state rxe0 4
    agent_start
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    # 1e-10 of the bits: a good link of any speed. (How many lanes soft-RoCE claims depends on the kernel.)
    corrected 25 40
    expect_report '[.findings[] | select(.reason == "CorrectedBitsHigh")] | length == 0'
    # 1e-4: more than the code will carry for long.
    corrected 90 40000000 &
    pid=$!
    until_report 60 '[.findings[] | select(.reason == "CorrectedBitsHigh" and .subject == "rxe0/1" and .weight == "notice")] | length == 1'
    # A notice: the node keeps its verdict.
    expect 'selvage_fabric_ready' == 1
    kill $pid
    until_report 100 '[.findings[] | select(.reason == "CorrectedBitsHigh")] | length == 0'
}
