"""Notices of the Compute Engine metadata server."""

from collections.abc import Callable, Sequence

from navarch.core.notice import Notice, NoticeKind
from navarch.hosts.metadata.http import request
from navarch.ports.metadata import MetadataError

ADDRESS = "http://metadata.google.internal"
FLAVOR = "metadata-flavor"
WAIT_S = 30
"""How long the server keeps a question about news open. A machine has 30 seconds from the notice
to its end, so waiting for the response beats asking every so often."""
OK = 200


class GcpKey:
    """Follows one value of the metadata server: the first response at once, then every change."""

    pause_s = 0.0

    def __init__(
        self,
        key: str,
        read: Callable[[str], Notice | None],
        address: str = ADDRESS,
        *,
        within_s: float = 2.0,
        wait_s: int = WAIT_S,
    ) -> None:
        self.name = f"gcp/{key}"
        self._url = f"{address.rstrip('/')}/computeMetadata/v1/instance/{key}"
        self._read = read
        self._within_s = within_s
        self._wait_s = wait_s
        self._etag = ""

    def look(self) -> Sequence[Notice]:
        """Return what stands, once it has changed or the server is tired of waiting."""
        query, within_s = "", self._within_s
        if self._etag:
            query = f"?wait_for_change=true&timeout_sec={self._wait_s}&last_etag={self._etag}"
            within_s += self._wait_s
        response = request(
            self._url + query, headers={"Metadata-Flavor": "Google"}, within_s=within_s
        )
        if response is None:
            # A machine of a kind that has no such value. The server would not wait for it either.
            self._etag = ""
            raise MetadataError(f"{self._url}: there is no such value")
        if response.status != OK or response.headers.get(FLAVOR, "").lower() != "google":
            self._etag = ""
            raise MetadataError(
                f"{self._url}: no response of a metadata server ({response.status})"
            )
        self._etag = response.headers.get("etag", "")
        notice = self._read(response.text.strip())
        return () if notice is None else (notice,)


def preempted(value: str) -> Notice | None:
    """Return what `instance/preempted` announces."""
    if value.upper() != "TRUE":
        return None
    return Notice(kind=NoticeKind.RECLAIM, reason="preempted; the machine ends within 30 seconds")


def maintenance_event(value: str) -> Notice | None:
    """Return what `instance/maintenance-event` announces.

    A machine that is moved while it runs loses nothing; machines with GPUs cannot be.
    """
    if not value.upper().startswith("TERMINATE"):
        return None
    return Notice(kind=NoticeKind.MAINTENANCE, reason=f"host maintenance: {value}")


def gcp_sources(
    address: str = ADDRESS, *, within_s: float = 2.0, wait_s: int = WAIT_S
) -> tuple[GcpKey, GcpKey]:
    """Return who follows the two values that matter."""
    return (
        GcpKey("preempted", preempted, address, within_s=within_s, wait_s=wait_s),
        GcpKey("maintenance-event", maintenance_event, address, within_s=within_s, wait_s=wait_s),
    )
