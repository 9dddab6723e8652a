"""What the platform's notification service would do; here it prints."""

from engine.effects import Notice, callback

__all__ = ["announce"]


@callback(level=["job", "task"])
def announce(notice: Notice) -> None:
    """Tell of every change of a job or a task, whatever the job."""
    who = f"{notice.namespace}/{notice.name}" + (f" task {notice.task}" if notice.task else "")
    print(f"[{notice.mode}] {who}: {notice.previous or 'new'} → {notice.phase}")
