"""Plugins that serve pages: the snapshot of the session, and the order of its jobs."""

from __future__ import annotations

import io
import json
import zipfile
from typing import ClassVar, Final

from navarch.scheduler.config import HttpResponse
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Session
from navarch.scheduler.plugins.node_scores import BuiltInPlugin
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot

MEMBER: Final = "snapshot.json"
NO_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest date of an archive: a constant, so that equal content gives equal bytes."""


class SnapshotPage(BuiltInPlugin):
    """Serves `/get-snapshot`: an archive of one file."""

    name: ClassVar[str] = "snapshot"

    def on_session_open(self, session: Session) -> None:
        """Register the page."""
        session.add_http_handler("/get-snapshot", lambda _request: _snapshot_page(session))


def _snapshot_page(session: Session) -> HttpResponse:
    text = dump_snapshot(Snapshot(cluster=session.cluster, config=session.config))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(zipfile.ZipInfo(MEMBER, NO_DATE), text)
    return HttpResponse(body=archive.getvalue(), content_type="application/zip")


class ReflectJobOrder(BuiltInPlugin):
    """Serves `/get-job-order`."""

    name: ClassVar[str] = "reflectjoborder"

    def on_session_open(self, session: Session) -> None:
        """Register the page."""
        session.add_http_handler(
            "/get-job-order",
            lambda _request: HttpResponse(body=json.dumps(job_order(session), indent=2).encode()),
        )


def job_order(session: Session) -> dict[str, object]:
    """Return the pending jobs in order: over all queues, and queue by queue."""
    queue = pending_jobs(session, "allocate")
    everything: list[dict[str, object]] = []
    by_queue: dict[str, list[dict[str, object]]] = {}
    while (job := queue.pop()) is not None:
        row: dict[str, object] = {"id": job.name, "priority": job.priority}
        everything.append(row)
        by_queue.setdefault(job.queue, []).append(row)
    return {"global_order": everything, "queue_order": by_queue}
