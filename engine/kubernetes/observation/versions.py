"""Order of observations of one object."""

from __future__ import annotations


def is_newer(version: str | None, last: str | None) -> bool:
    """Return true if an observation is newer than the last one processed.

    resourceVersions are compared as integers if both are decimal (Kubernetes 1.35 and later guarantee that order, earlier ones have
    it in practice); otherwise only equality is known, and the order of arrival decides.
    """
    if version is None or last is None:
        return True
    if version.isdecimal() and last.isdecimal():
        return int(version) > int(last)
    return version != last
