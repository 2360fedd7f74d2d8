# what: a RoCE rail whose interface has a smaller MTU than the others, and gets theirs again
# group: c-nic

scenario() {
    local i
    testnic 4 pci=0000:01:00.0,0000:02:00.0
    for i in 0 1 2 3; do rxe rxe$i testnic$i; done
    for i in 0 1 2 3; do wait_for 10 "rxe$i ACTIVE" sys_state rxe$i 4; done
    agent_start
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    until_metric 20 selvage_rail_mtu_bytes == 1500
    # 904 bytes beside the headers: packets of 512.
    must ip link set testnic3 mtu 1000
    until_report 60 '[.findings[] | select(.reason == "MtuReduced" and .subject == "rxe3/1" and .expected.because == "peers")] | length == 1'
    until_metric 20 'selvage_fabric_state{state="degraded"}' == 1
    must ip link set testnic3 mtu 1500
    until_report 100 '[.findings[] | select(.reason == "MtuReduced")] | length == 0'
}
