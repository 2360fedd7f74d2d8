# what: an InfiniBand port: PMA words become bytes, saturation, state INIT, no counters
# group: f-pci
# machine: metal

scenario() {
    pci_identity 0000:01:00.0=15b3:1021:020700 0000:02:00.0=15b3:1021:020700
    must insmod $OWN/testib.ko count=2 pci=0000:01:00.0,0000:02:00.0
    ib 0 counter "port_xmit_data 1000"
    ib 0 counter "port_rcv_packets 77"
    ib 0 counter "symbol_error 12"
    ib 0 counter "excessive_buffer_overrun_errors 15"
    ib 0 counter "out_of_sequence 5"
    ib 1 pma 0
    agent_start
    until_metric 30 'selvage_port_info{device="testib0",link_layer="infiniband",pci="0000:01:00.0",driver="mlx5_core"}' == 1
    until_metric 10 'selvage_port_rate_bytes_per_second{device="testib0"}' == 5e10
    until_metric 30 'selvage_port_transmit_bytes_total{device="testib0"}' == 4000
    until_metric 10 'selvage_port_receive_packets_total{device="testib0"}' == 77
    until_metric 10 'selvage_port_counter_total{device="testib0",counter="symbol_error"}' == 12
    until_metric 10 'selvage_port_hw_counter_total{device="testib0",counter="out_of_sequence"}' == 5
    until_metric 10 'selvage_port_counter_saturated{device="testib0",counter="excessive_buffer_overrun_errors"}' == 1
    # No PMA: absent, not 0; and the port itself is fine.
    expect 'selvage_port_counter_total{device="testib1"}' absent
    expect 'selvage_port_transmit_bytes_total{device="testib1"}' absent
    expect 'selvage_port_up{device="testib1"}' == 1
    # Trained, but no subnet manager has been by: not a cable.
    ib 0 state 2
    until_metric 20 'selvage_port_state_id{device="testib0"}' == 2
    until_metric 5 'selvage_port_up{device="testib0"}' == 0
    until_report 60 '[.findings[] | select(.subject == "testib0/1")] | length > 0'
    ib 0 state 4
    until_metric 20 'selvage_port_up{device="testib0"}' == 1
}
