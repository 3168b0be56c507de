"""A page that shows in which order jobs would be served."""

from __future__ import annotations

import json
from typing import ClassVar

from navarch.scheduler.actions.pending import pending_jobs
from navarch.scheduler.framework.session import Session
from navarch.scheduler.http import HttpRequest, HttpResponse


class ReflectJobOrder:
    """Answers `/get-job-order`."""

    name: ClassVar[str] = "reflectjoborder"

    def on_session_open(self, session: Session) -> None:
        """Register the page."""
        session.add_http_handler("/get-job-order", lambda request: _page(session, request))

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


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


def _page(session: Session, _request: HttpRequest) -> HttpResponse:
    return HttpResponse(body=json.dumps(job_order(session), indent=2).encode())
