"""Scheduling: the model of the cluster, and sessions of actions and plugins over it. Behaviour follows Volcano's scheduler."""
