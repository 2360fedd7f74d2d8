# what: nvidia, nvidia_peermem and nvidia_fs come and go
# group: e-host

scenario() {
    local m
    agent_start
    for m in nvidia nvidia_peermem nvidia_fs; do
        until_metric 30 "selvage_kernel_module_loaded{module=\"$m\"}" == 0
    done
    must insmod $OWN/nvidia.ko gpus=0000:17:00.0
    must insmod $OWN/nvidia_peermem.ko
    must insmod $OWN/nvidia_fs.ko
    for m in nvidia nvidia_peermem nvidia_fs; do
        until_metric 75 "selvage_kernel_module_loaded{module=\"$m\"}" == 1
    done
    until_report 30 '.modules | tostring | test("550\\.54\\.15")'
    must rmmod nvidia_peermem
    until_metric 75 'selvage_kernel_module_loaded{module="nvidia_peermem"}' == 0
    expect 'selvage_kernel_module_loaded{module="nvidia"}' == 1
    must rmmod nvidia_fs
    must rmmod nvidia
    for m in nvidia nvidia_fs; do
        until_metric 75 "selvage_kernel_module_loaded{module=\"$m\"}" == 0
    done
}
