# Runs one scenario: sh /guest/one.sh NAME
. /guest/lib.sh
. /guest/net.sh
. /guest/pods.sh
. "/scenarios/$1.sh"
set -e
scenario
# Whatever a scenario asserts, the agent must have survived it.
! grep -q 'panicked at' $AGENT_LOG 2>/dev/null || fail "the agent panicked: $(grep -A 1 'panicked at' $AGENT_LOG | tr '\n' ' ')"
[ ! -s /run/agent.pid ] || [ "${STOPPED:-}" = "$AGENT_PID" ] || ! agent_gone || fail "the agent is gone at the end: $(tail -n 1 $AGENT_LOG)"
