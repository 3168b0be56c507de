"""The jobs of a session for which some condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.model.job import Job


class JobIndex:
    """The jobs for which `holds` is true, in order of their names."""

    def __init__(self, state: ClusterState, holds: Callable[[Job], bool]) -> None:
        self._state = state
        self._holds = holds

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs by name."""
        return [job for job in self._state.jobs.values() if self._holds(job)]

    def __len__(self) -> int:
        return len(self.jobs)
