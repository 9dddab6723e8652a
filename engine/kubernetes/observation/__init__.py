"""The state that cluster objects show: pods by the pod table, jobs, nodes, and facts of clusters."""
