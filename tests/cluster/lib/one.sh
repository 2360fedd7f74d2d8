#!/bin/bash
# Runs one scenario in a process of its own: one.sh NAME (environment from run).
set -u # no pipefail: `… | grep -q` closes its input early
SCENARIO=$1
. "$CLUSTER_DIR/lib/common.sh"
. "$CLUSTER_DIR/lib/scenario.sh"
. "$CLUSTER_DIR/lib/jobs.sh"
rm -f "$W/reason"
# Not `( … ) && exit`: bash ignores `set -e` and the ERR trap on the left of && and ||.
(
    set -eE
    trap 'echo "line $LINENO of ${BASH_SOURCE[0]##*/}: a command failed ($?): $BASH_COMMAND" | tee -a "$W/reason"' ERR
    clean >"$W/clean.log" 2>&1 || { tail -n 10 "$W/clean.log"; fail "the cluster could not be cleaned"; }
    . "$CLUSTER_DIR/scenarios/$SCENARIO.sh"
    scenario
)
rc=$?
[ $rc != 0 ] || exit 0
show_state 2>&1 | cut -c 1-2000 || true
exit 1
