"""Runs one shard of a stage on a log: takes inputs, lets the stage decide, commits what follows, recovers."""
