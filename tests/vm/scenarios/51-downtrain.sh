# what: a root port that trained at x1 of x16 is in the report
# group: f-pci

scenario() {
    must insmod $OWN/testib.ko count=1 pci=0000:01:00.0
    agent_start
    until_metric 30 'selvage_port_up{device="testib0"}' == 1
    # The port could do 16 GT/s x16, its link does 2.5 GT/s x1. Whether this is
    # the card's own limit or a fault, the numbers have to be there to see.
    until_report 75 '[.. | objects | select(tostring | test("2\\.5|2500000000")) | select(tostring | test("16"))] | length > 0'
}
