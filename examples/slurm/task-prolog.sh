#!/bin/sh
# TaskProlog: in the job's environment, before each task. Slurm shows the user what follows "print".
# Only the first task of a node looks, and whatever it finds, the job starts.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
/usr/bin/selvage preflight --warn 2>&1 | sed 's/^/print /'
exit 0
