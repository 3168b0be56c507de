"""A page with the session's snapshot, for replaying it elsewhere."""

from __future__ import annotations

import io
import zipfile
from typing import ClassVar, Final

from navarch.scheduler.framework.session import Session
from navarch.scheduler.http import HttpRequest, HttpResponse
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot

MEMBER: Final = "snapshot.json"
NO_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest an archive can say; the real time is inside, and equal content gives equal bytes."""


class SnapshotPage:
    """Answers `/get-snapshot` with an archive of one file."""

    name: ClassVar[str] = "snapshot"

    def on_session_open(self, session: Session) -> None:
        """Register the page."""
        session.add_http_handler("/get-snapshot", lambda request: _page(session, request))

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


def _page(session: Session, _request: HttpRequest) -> HttpResponse:
    text = dump_snapshot(Snapshot(cluster=session.cluster, config=session.config))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(zipfile.ZipInfo(MEMBER, NO_DATE), text)
    return HttpResponse(body=archive.getvalue(), content_type="application/zip")
