# what: PFC turned off and on shifts the list of statistics: no value under a wrong name
# group: a-nic

# With PFC nowhere on the node it has no series, on one device alone it is 0.
off() { ! holds "selvage_pfc_enabled{netdev=\"testnic0\",priority=\"$1\"}" == 1; }

scenario() {
    testnic 2
    rxe rxe0 testnic0
    # Values that give themselves away when read one line off.
    nic_stat 0 "rx_prio2_pause 2222" "rx_prio3_pause 3333" "rx_prio5_pause 5555" "rx_prio3_discards 33"
    nic 0 pfc_en 8
    agent_start
    until_metric 30 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="3",direction="receive"}' == 3333
    nic 0 pfc_en 36 # 2 and 5, the list has grown
    until_metric 75 'selvage_pfc_enabled{netdev="testnic0",priority="5"}' == 1
    wait_for 30 "priority 3 off" off 3
    until_metric 75 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="5",direction="receive"}' == 5555
    until_metric 30 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="2",direction="receive"}' == 2222
    # Off is not observable, which is not zero.
    until_metric 30 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="3",direction="receive"}' absent
    # Same number of lines, other meaning: 1 and 6 for 2 and 5.
    nic_stat 0 "rx_prio1_pause 1111" "rx_prio6_pause 6666"
    nic 0 pfc_en 66
    until_metric 75 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="6",direction="receive"}' == 6666
    until_metric 30 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="1",direction="receive"}' == 1111
    expect 'selvage_pfc_pause_frames_total{netdev="testnic0",priority="5",direction="receive"}' absent
}
