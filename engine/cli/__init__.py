"""The `lahar` command."""
