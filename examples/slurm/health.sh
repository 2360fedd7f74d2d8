#!/bin/sh
# slurmd's HealthCheckProgram. slurmd runs it with no arguments, and with no environment but SLURMD_NODENAME.
export PATH=/usr/bin:/bin SLURM_CONF=/etc/slurm/slurm.conf
exec /usr/bin/selvage slurm health
