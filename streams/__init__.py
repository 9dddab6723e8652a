"""Kafka: topics, codecs, the transactional log and the Faust agents (the next release fills this package)."""
