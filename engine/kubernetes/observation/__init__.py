"""What the objects of a cluster show: the state of a pod by the pod table, jobs, nodes, the facts of a cluster."""
