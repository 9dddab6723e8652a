"""What the operator's pager and chat would do; here they print."""

from engine.effects import Notice, callback

__all__ = ["tell_operators"]


@callback(level=["job", "replica"], to=["Lost", "Restarting", "Aborted"])
def tell_operators(notice: Notice) -> None:
    """Tell what was lost with a node, and what becomes of the jobs on it."""
    if notice.level == "replica":
        print(f"[{notice.mode}] lost: {notice.namespace}/{notice.name} {notice.task}[{notice.index}] ({notice.reason})")
    else:
        print(f"[{notice.mode}] {notice.namespace}/{notice.name} is {notice.phase}, it was {notice.previous}")
