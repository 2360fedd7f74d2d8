#!/bin/bash
# Runs one scenario in a process of its own: one.sh NAME (environment from run).
set -eu # no pipefail: `… | grep -q` ends its input early
SCENARIO=$1
. "$CLUSTER_DIR/lib/common.sh"
. "$CLUSTER_DIR/lib/scenario.sh"
. "$CLUSTER_DIR/lib/jobs.sh"
rm -f "$W/reason"
(
    trap 'echo "line $LINENO of ${BASH_SOURCE[0]##*/}: a command failed ($?): $BASH_COMMAND" | tee -a "$W/reason"' ERR
    set -E
    clean >"$W/clean.log" 2>&1 || { tail -n 10 "$W/clean.log"; fail "the cluster could not be cleaned"; }
    . "$CLUSTER_DIR/scenarios/$SCENARIO.sh"
    scenario
) && exit 0
show_state 2>&1 | cut -c 1-2000 || true
exit 1
