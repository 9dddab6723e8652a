"""Log port, its memory and SQLite implementations, and their errors."""
