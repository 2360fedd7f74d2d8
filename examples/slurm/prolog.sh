#!/bin/sh
# Prolog: as root, before a job's first step on the node. Status 1 makes Slurm drain the node with the reason
# "Prolog error", outside of selvage's budget, and requeue the job, held. So only proof fails, and neither
# an agent that does not answer nor wrong settings do.
/usr/bin/selvage check --agent --exit-codes slurm --fail-on unready >/dev/null 2>&1
[ $? -ne 1 ]
