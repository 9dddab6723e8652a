"""State of the shard: jobs as their events describe them, and the cluster models that are kept in step with them."""
