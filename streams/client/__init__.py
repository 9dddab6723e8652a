"""Kafka below the public surface of aiokafka: connections, requests, batches, group members, producers that can be ended."""
