# etcd, kube-apiserver, controller-manager, scheduler. Uses $D, $BIN (the
# binaries), $API_PORT and $ADDRESS (what clients elsewhere would use).

SERVICE_IP=10.0.0.1

make_certificates() {
    local pki="$D/pki"
    mkdir -p "$pki"
    [ ! -e "$pki/complete" ] || return 0
    openssl ecparam -name prime256v1 -genkey -noout -out "$pki/ca.key" &&
        openssl req -x509 -new -key "$pki/ca.key" -subj "/CN=selvage-test-ca" -days 30 -out "$pki/ca.crt" \
            -addext keyUsage=critical,keyCertSign,digitalSignature &&
        openssl ecparam -name prime256v1 -genkey -noout -out "$pki/apiserver.key" &&
        openssl req -new -key "$pki/apiserver.key" -subj "/CN=kube-apiserver" -out "$pki/apiserver.csr" &&
        printf '%s\n' "subjectAltName=IP:127.0.0.1,IP:$SERVICE_IP,IP:$ADDRESS,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local" \
            "extendedKeyUsage=serverAuth" "basicConstraints=CA:FALSE" >"$pki/apiserver.ext" &&
        openssl x509 -req -in "$pki/apiserver.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial \
            -days 30 -extfile "$pki/apiserver.ext" -out "$pki/apiserver.crt" &&
        openssl genrsa -out "$pki/sa.key" 2048 && touch "$pki/complete"
}

# kubeconfig FILE TOKEN
kubeconfig() {
    cat >"$1" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: https://127.0.0.1:$API_PORT
    certificate-authority: $D/pki/ca.crt
users:
- name: user
  user: {token: "$2"}
contexts:
- name: test
  context: {cluster: test, user: user}
current-context: test
YAML
    chmod 600 "$1"
}

random() { od -An -tx1 -N16 /dev/urandom | tr -d ' \n'; }

make_users() { # NODE...
    local node admin
    admin=$(random)
    printf '%s,admin,admin,system:masters\n' "$admin" >"$D/pki/tokens.csv"
    kubeconfig "$D/admin.kubeconfig" "$admin"
    for node in "$@"; do
        local token
        token=$(random)
        printf '%s,system:node:%s,%s,system:nodes\n' "$token" "$node" "$node" >>"$D/pki/tokens.csv"
        kubeconfig "$D/kubelet.kubeconfig" "$token"
    done
}

api_ready() {
    curl -sS -f -m 2 --cacert "$D/pki/ca.crt" -H "Authorization: Bearer $(cut -d , -f 1 <"$D/pki/tokens.csv" | head -n 1)" \
        "https://127.0.0.1:$API_PORT/readyz" >/dev/null
}
etcd_ready() { curl -sS -f -m 2 "http://127.0.0.1:$ETCD_PORT/health" | grep -q true; }

# Memory, not disk: a test's history need not outlive it, and fsync is slow.
etcd_directory() {
    if [ -n "${CLUSTER_NS:-}" ]; then
        mkdir -p "$D/etcd"
        mountpoint -q "$D/etcd" || mount -t tmpfs -o mode=700 selvage-etcd "$D/etcd" || die "no tmpfs for etcd"
        ETCD_DATA="$D/etcd"
    elif [ ! -s "$D/etcd.path" ]; then
        ETCD_DATA=$(mktemp -d /dev/shm/selvage-etcd.XXXXXX 2>/dev/null) || ETCD_DATA=$(mktemp -d "$D/etcd.XXXXXX")
        echo "$ETCD_DATA" >"$D/etcd.path"
    else
        ETCD_DATA=$(cat "$D/etcd.path")
    fi
}

has_flag() { "$BIN/$1" --help 2>&1 | grep -q -- "^ *--$2 "; }

start_etcd() {
    etcd_directory
    define etcd "$BIN/etcd" --name test --data-dir "$ETCD_DATA" --quota-backend-bytes 4294967296 \
        --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
        --listen-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" \
        --initial-advertise-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" \
        --initial-cluster "test=http://127.0.0.1:$ETCD_PEER_PORT"
    start etcd
    ready etcd 30 etcd_ready
}

# CLUSTER_APISERVER_FLAGS adds flags, for a test that wants others.
start_apiserver() {
    local more=()
    if [ -n "${CLUSTER_NS:-}" ]; then
        # Tokens that are bound to a pod and change, as newer versions have them always.
        more=(--advertise-address "$ADDRESS" --bind-address 0.0.0.0 --kubelet-preferred-address-types InternalIP --feature-gates BoundServiceAccountTokenVolume=true)
    else
        more=(--bind-address 127.0.0.1 --advertise-address "$ADDRESS" --endpoint-reconciler-type none)
    fi
    # shellcheck disable=SC2206
    more+=(${CLUSTER_APISERVER_FLAGS:-})
    # No compaction: a test may ask for the whole history.
    define apiserver "$BIN/kube-apiserver" --etcd-servers "http://127.0.0.1:$ETCD_PORT" \
        --etcd-compaction-interval 0 --secure-port "$API_PORT" \
        --tls-cert-file "$D/pki/apiserver.crt" --tls-private-key-file "$D/pki/apiserver.key" \
        --service-account-key-file "$D/pki/sa.key" --service-account-signing-key-file "$D/pki/sa.key" \
        --service-account-issuer https://kubernetes.default.svc --api-audiences https://kubernetes.default.svc \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
        --token-auth-file "$D/pki/tokens.csv" --service-cluster-ip-range 10.0.0.0/24 --allow-privileged \
        --profiling=false "${more[@]}"
    start apiserver
    ready apiserver 60 api_ready
}

start_controllers() { # CONTROLLERS
    local more=()
    has_flag kube-controller-manager port && more=(--port 0)
    define controller-manager "$BIN/kube-controller-manager" --kubeconfig "$D/admin.kubeconfig" \
        --service-account-private-key-file "$D/pki/sa.key" --root-ca-file "$D/pki/ca.crt" \
        --leader-elect=false --bind-address 127.0.0.1 --secure-port "$KCM_PORT" --cert-dir "$D/pki/controller-manager" \
        --controllers "$1" "${more[@]}"
    start controller-manager
}

start_scheduler() {
    define scheduler "$BIN/kube-scheduler" --kubeconfig "$D/admin.kubeconfig" --leader-elect=false \
        --bind-address 127.0.0.1 --secure-port "$SCHEDULER_PORT" --port 0 --cert-dir "$D/pki/scheduler"
    start scheduler
}

default_account() { "$KUBECTL" --kubeconfig "$D/admin.kubeconfig" get serviceaccount default -n default; }
