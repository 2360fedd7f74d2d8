# what: a RoCE rail whose interface carries smaller packets than the rail alike
# group: f-pci
# machine: metal

scenario() {
    pci_identity 0000:01:00.0=15b3:1021:020000 0000:02:00.0=15b3:1021:020000
    testnic 2 bind=1 pci=0000:01:00.0,0000:02:00.0
    rxe rxe0 testnic0
    rxe rxe1 testnic1
    wait_for 10 "rxe1 ACTIVE" sys_state rxe1 4
    agent_start
    until_metric 30 'selvage_port_info{device="rxe1",pci="0000:02:00.0",driver="mlx5_core"}' == 1
    # 9000 and 4200 carry the same RDMA packets.
    must ip link set testnic0 mtu 9000
    sleep 8
    expect_report '[.findings[] | select(.check == "mtu")] | length == 0'
    must ip link set testnic1 mtu 1500
    until_report 60 '[.findings[] | select(.reason == "MtuReduced" and .subject == "rxe1/1" and .expected.value == 4096)] | length == 1'
    must ip link set testnic1 mtu 4200
    until_report 60 '[.findings[] | select(.check == "mtu")] | length == 0'
}
