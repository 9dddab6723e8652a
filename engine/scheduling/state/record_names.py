"""Names of the shard's snapshot records: heads, groups and attempts of jobs, clusters, notices."""

from __future__ import annotations

from engine.scheduling.state.shard import PAGE


def head_record(job: str) -> str:
    """Name the record of a job, without group and attempts."""
    return f"head/{job}"


def group_record(job: str) -> str:
    """Name the record of a job's group."""
    return f"group/{job}"


def page_record(job: str, place: int) -> str:
    """Name the record that holds an attempt."""
    return f"attempts/{place // PAGE}/{job}"


def cluster_record(cluster: str) -> str:
    """Name the record of a cluster."""
    return f"cluster/{cluster}"


def notice_record(notice: str) -> str:
    """Name the record of a notice."""
    return f"notice/{notice}"
