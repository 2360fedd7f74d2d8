# Processes of a cluster: started with a log and a pid file, stopped by pid.
# $D is the cluster's directory. Sourced after common.sh.

# A pid may be reused by another process; with its start time it is unique.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

alive() { # NAME
    local pid began
    read -r pid began 2>/dev/null <"$D/pids/$1" || return 1
    [ -n "$pid" ] && [ "$(start_time "$pid")" = "$began" ] && ! ended "$pid"
}

# A killed process is a zombie as soon as its first thread has gone; its ports and files are free only
# when the last one has, which takes seconds on a loaded machine.
ended() { # PID
    grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null &&
        [ "$(ls "/proc/$1/task" 2>/dev/null | wc -l)" -le 1 ]
}

pid_of() { cut -d ' ' -f 1 "$D/pids/$1"; }

# define NAME COMMAND...: keeps the command, so that NAME can be started again.
define() {
    local name=$1
    shift
    mkdir -p "$D/commands" "$D/pids" "$D/logs"
    { printf 'exec'; printf ' %q' "$@"; echo; } >"$D/commands/$name"
}

start() { # NAME
    local pid
    [ -e "$D/commands/$1" ] || die "$1 is no part of $D"
    alive "$1" && return
    # Out of our session, so that a Ctrl-C reaches the trap and not etcd first.
    setsid bash "$D/commands/$1" >>"$D/logs/$1.log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$D/pids/$1"
}

stop() { # NAME [SECONDS before it is killed]
    local pid end
    if alive "$1"; then
        pid=$(pid_of "$1")
        kill -TERM "$pid" 2>/dev/null
        kill -CONT "$pid" 2>/dev/null
        end=$((SECONDS + ${2:-10}))
        while alive "$1" && [ $SECONDS -lt $end ]; do sleep 0.05; done
        alive "$1" && kill -KILL "$pid" 2>/dev/null
        while alive "$1"; do sleep 0.05; done
    fi
    rm -f "$D/pids/$1"
}

log_tail() { # NAME
    say "the end of $D/logs/$1.log:"
    tail -n "${CLUSTER_TAIL:-25}" "$D/logs/$1.log" 2>/dev/null | cut -c 1-400 | sed 's/^/    | /' >&2
}

# ready NAME SECONDS COMMAND...: a part that dies or is late ends the rig. SECONDS as of wait_for. On a busy
# machine kube-apiserver gives up a start that takes longer than its hooks allow: as a kubelet does, it is
# started again.
ready() {
    local name=$1 limit=$(($2 * PATIENCE)) end starts=1
    end=$((SECONDS + limit))
    shift 2
    until "$@" >"$D/logs/$name.ready" 2>&1; do
        if ! alive "$name" && [ "$name" = apiserver ] && [ $starts -lt 4 ]; then
            say "$name has ended, and is started again: $(grep -hE '^F[0-9]{4} |^panic:|^fatal error:' "$D/logs/$name.log" | tail -n 1)"
            starts=$((starts + 1))
            start "$name"
        elif ! alive "$name"; then
            log_tail "$name"
            die "$name has ended"
        fi
        if [ $SECONDS -ge $end ]; then
            log_tail "$name"
            tail -n 5 "$D/logs/$name.ready" >&2
            die "$name is not ready after $limit s"
        fi
        sleep 0.4
    done
}

# Not of those that connections are given: while a server is down, somebody who knocks could have its
# port as his own, and it could not come back.
free_ports() { # COUNT
    python3 - "$1" <<'PY'
import random, socket, sys
low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
held = []
for port in random.sample(range(10000, max(low, 20000)), 2000):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError:
        s.close()
        continue
    held.append(s)
    if len(held) == int(sys.argv[1]):
        break
print(*(s.getsockname()[1] for s in held))
PY
}
