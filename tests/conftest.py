"""Settings of all tests: examples are the same in every run, and no test fails because a machine is slow."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")
