"""Kafka below aiokafka's public API: connections, requests, record batches, group members, producers that can be aborted."""
