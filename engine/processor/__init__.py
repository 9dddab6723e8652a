"""Processing of one shard of a stage on a log: reads inputs, calls the stage, commits its events, recovers."""
