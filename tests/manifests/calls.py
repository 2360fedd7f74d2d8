"""The calls to the API server: verb, group, resource, namespace (None: the cluster). A row is there
because the code makes the call; RBAC must grant these and nothing else."""

AGENT = {
    # The own Node: list and watch by field selector, get after a conflict.
    ("get", "", "nodes", None),
    ("list", "", "nodes", None),  # also counts the nodes of a budget's group, in pages
    ("watch", "", "nodes", None),
    ("patch", "", "nodes", None),  # labels by apply, taints by JSON patch
    ("patch", "", "nodes/status", None),  # the condition
    # The budget's ledger, by compare-and-swap.
    ("get", "coordination.k8s.io", "leases", "selvage"),
    ("create", "coordination.k8s.io", "leases", "selvage"),
    ("update", "coordination.k8s.io", "leases", "selvage"),
    # Events on the Node, in `default`, and on Pods, in their namespaces; patch counts a repeated one up.
    ("create", "", "events", None),
    ("patch", "", "events", None),
}

# The pods of the own node, by field selector. The component no-pod-watch withholds it.
PODS = {
    ("list", "", "pods", None),
    ("watch", "", "pods", None),
}

CLEANUP = {
    ("get", "", "nodes", None),
    ("list", "", "nodes", None),
    ("patch", "", "nodes", None),
    ("patch", "", "nodes/status", None),
    ("list", "coordination.k8s.io", "leases", "selvage"),
    ("delete", "coordination.k8s.io", "leases", "selvage"),
}
