"""Notices of the EC2 instance metadata service, version 2."""

import json
from collections.abc import Sequence

from navarch.core.instance import Notice, NoticeKind
from navarch.hosts.metadata.http import UNAUTHORIZED, fetch, text
from navarch.http.message import Response
from navarch.ports.host import MetadataError

ADDRESS = "http://169.254.169.254"
TOKEN_S = 21_600
"""The lifetime of a session token: the longest that the service grants."""
OVER = frozenset({"completed", "canceled"})
"""States of a scheduled event that is over."""
OK = 200


class AwsMetadata:
    """Polls every few seconds, since the service has no long poll.

    The notice for a spot instance comes two minutes before its end. A rebalance recommendation may
    come earlier: the instance is likely to be reclaimed, so it can be replaced first.
    """

    name = "aws"
    pause_s = 5.0

    def __init__(self, address: str = ADDRESS, *, within_s: float = 2.0) -> None:
        self._address = address.rstrip("/")
        self._within_s = within_s
        self._token = ""

    def look(self) -> Sequence[Notice]:
        """Return notices of reclaim, of the risk of one, and of scheduled maintenance."""
        notices: list[Notice] = []
        found = self._get("spot/instance-action")
        if isinstance(found, dict) and found.get("action"):
            reason = f"{found['action']} at {found.get('time', 'an unknown time')}"
            notices.append(Notice(kind=NoticeKind.RECLAIM, reason=reason))
        found = self._get("events/recommendations/rebalance")
        if isinstance(found, dict):
            since = found.get("noticeTime", "an unknown time")
            reason = f"likely to be reclaimed, by a rebalance recommendation of {since}"
            notices.append(Notice(kind=NoticeKind.MAINTENANCE, reason=reason))
        found = self._get("events/maintenance/scheduled")
        for event in found if isinstance(found, list) else ():
            if not isinstance(event, dict) or str(event.get("State", "")).lower() in OVER:
                continue
            what = event.get("Code") or event.get("Description") or "an event"
            reason = f"{what} from {event.get('NotBefore', 'an unknown time')}"
            notices.append(Notice(kind=NoticeKind.MAINTENANCE, reason=reason))
        return tuple(notices)

    def _get(self, path: str) -> object:
        """Return the decoded value at `path`; None if there is none."""
        response = self._request(path)
        if response is not None and response.status == UNAUTHORIZED:
            # Tokens expire, early if the instance was stopped.
            self._token = ""
            response = self._request(path)
        if response is None or not text(response):
            return None
        if response.status != OK:
            raise MetadataError(f"{path}: the service returned {response.status}")
        try:
            found: object = json.loads(response.body)
        except ValueError as error:
            raise MetadataError(f"{path}: {text(response)[:80]!r} is not JSON") from error
        return found

    def _request(self, path: str) -> Response | None:
        if not self._token:
            self._token = self._new_token()
        return fetch(
            f"{self._address}/latest/meta-data/{path}",
            headers={"X-aws-ec2-metadata-token": self._token},
            within_s=self._within_s,
        )

    def _new_token(self) -> str:
        response = fetch(
            f"{self._address}/latest/api/token",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)},
            within_s=self._within_s,
            method="PUT",
            body=b"",
        )
        if response is None or response.status != OK:
            status = "not found" if response is None else response.status
            raise MetadataError(f"no session token: the service returned {status}")
        return text(response)
