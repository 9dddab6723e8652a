"""What the platform's support desk would do; here it prints."""

from engine.effects import Notice, callback

__all__ = ["advise"]


@callback(level="replica", to="Failed", reason="OomKilled")
def advise(notice: Notice) -> None:
    """Tell the owner of a job whose worker ran out of memory what can be done."""
    print(f"[{notice.mode}] to the owner of {notice.namespace}/{notice.name}: {notice.task}[{notice.index}] ran out of memory")
    print(f"  (attempt {notice.attempt}, exit {notice.exit_code}). It is made anew; give it more memory if that happens again.")
