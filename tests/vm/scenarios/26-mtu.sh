# what: a RoCE rail's interface has a smaller MTU than the rail had before, and gets it back
# group: a-nic

scenario() {
    local key
    testnic 1 pci=0000:01:00.0
    rxe rxe0 testnic0
    wait_for 10 "rxe0 ACTIVE" sys_state rxe0 4
    agent_start
    until_metric 60 'selvage_fabric_state{state="ready"}' == 1
    until_metric 20 selvage_rail_mtu_bytes == 4200
    # What it remembers after ten minutes; soft-RoCE has no model, so no peers.
    report_holds . && key=$(jq -r '.ports[0].key' /run/r)
    agent_stop
    must jq --arg key "$key" '.memory.remembered.parts[$key] = {identity: "", name: "rxe0/1", best: {mtu: 4096}}' $STATE_DIR/memory.json >/run/state
    must cp /run/state $STATE_DIR/memory.json
    must ip link set testnic0 mtu 1500
    agent_start
    until_report 60 '[.findings[] | select(.reason == "MtuReduced" and .subject == "rxe0/1" and .expected.because == "remembered")] | length == 1'
    until_metric 20 selvage_rail_mtu_bytes == 1500
    until_metric 20 'selvage_fabric_state{state="degraded"}' == 1
    must ip link set testnic0 mtu 4200
    until_report 100 '[.findings[] | select(.reason == "MtuReduced")] | length == 0'
    until_metric 20 'selvage_fabric_state{state="ready"}' == 1
}
