"""Composition of a process: settings, opening of logs, the runner of shards, monitoring."""
