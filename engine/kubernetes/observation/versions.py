"""Order of the observations of one object."""

from __future__ import annotations

__all__ = ["is_newer"]


def is_newer(version: str | None, last: str | None) -> bool:
    """Return whether an observation is newer than the last one taken.

    resourceVersions are compared as integers where both are decimal (Kubernetes 1.35 and later promise that order, earlier ones
    keep it in fact); otherwise only equality is known, and the order of arrival decides.
    """
    if version is None or last is None:
        return True
    if version.isdecimal() and last.isdecimal():
        return int(version) > int(last)
    return version != last
