"""Questions about notices of preemption."""

from __future__ import annotations

from collections.abc import Iterable

from engine.application.questions import Questions
from engine.arguments import checked_methods
from engine.history.preemptions import NoticeView, notice_named, notices
from engine.log.port import SearchableLog
from engine.projection.job_tables import JobTables


@checked_methods
class Preemptions:
    """The notices of a log. Methods raise `LogError` if the log cannot be read."""

    def __init__(self, questions: Questions, source: SearchableLog) -> None:
        """Ask nothing yet.

        Args:
            questions: of the log.
            source: the log.
        """
        self._questions = questions
        self._source = source

    def notices(self, *, ended: bool = False, queue: str | None = None) -> list[NoticeView]:
        """Return the open notices, in the order of their opening.

        Args:
            ended: include those that were executed or withdrawn.
            queue: only of this queue.
        """
        found = notices(self._source)
        return [one for one in found if (ended or one.state == "Open") and queue in {None, one.queue}]

    def notice(self, name: str) -> NoticeView:
        """Return a notice by its id, `CLUSTER/NUMBER`.

        Raises:
            NotFoundError: there is none of this name.
        """
        return notice_named(self._source, name)

    def names(self, found: Iterable[NoticeView]) -> dict[str, str]:
        """Return what the jobs of some notices are called, `NAMESPACE/NAME`, by id."""
        idents = list({job for notice in found for job in notice.jobs()})
        named = self._questions.ask(JobTables, lambda jobs: jobs.names(idents))
        return {job: f"{namespace}/{name}" for job, (namespace, name, _) in named.items()}
