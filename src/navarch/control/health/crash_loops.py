"""Crash loops: records the nodes on which programs of jobs die again and again."""

from collections.abc import Sequence

from navarch.control.health.wear import NoteFindings
from navarch.control.runtime.controller import Controller
from navarch.fleet.jobs.crash_loops import crash_loop_of, plan_crash_loops
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

ALL_NODES = "all nodes"


class CrashLoopController(Controller):
    """Judges all nodes when a program has died, and when time may change the judgement.

    Deaths are stored with their jobs and crash loops with their nodes, so a restart judges alike.
    """

    name = "crash-loops"

    def __init__(self, clock: Clock, store: Store, note_findings: NoteFindings) -> None:
        super().__init__(clock, store, [ALL_NODES])
        self._note_findings = note_findings

    def on_commit(self, committed: Committed) -> None:
        """Queue the judgement if a job that has died moves, or a node in a crash loop changes."""
        change, before = committed.change, committed.before.jobs
        moved = any(
            job.deaths and ((old := before.get(job.name)) is None or old.since != job.since)
            for job in change.jobs
        )
        if moved or any(node.conditions and crash_loop_of(node) for node in change.nodes):
            self.queue.add(ALL_NODES)

    async def reconcile(self, keys: Sequence[str]) -> None:
        """Record the crash loops that begin and end."""
        plan = plan_crash_loops(self._store.fleet(), now=self._clock.now())
        for node, result in plan.results.items():
            await self._note_findings(node, [result])
        for key in keys:
            self.queue.reschedule(key, plan.wake_at)
