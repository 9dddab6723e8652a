"""Kafka: topics and their settings, records as CloudEvents, the transactional log."""
