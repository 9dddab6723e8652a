"""Observed state of cluster objects: pods by the pod table, jobs, nodes, and cluster facts."""
