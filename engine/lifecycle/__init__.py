"""The lifecycle stage: pods, jobs and commands in, the truth about every job out."""
