"""Puts the parts together: settings, opening of logs, the runner of shards, monitoring."""
