"""Notices of the Compute Engine metadata server."""

from collections.abc import Callable, Sequence

from navarch.core.instance import Notice, NoticeKind
from navarch.hosts.metadata.http import fetch, text
from navarch.ports.host import MetadataError

ADDRESS = "http://metadata.google.internal"
FLAVOR = "metadata-flavor"
WAIT_S = 30
"""How long the server holds a long poll. An instance ends 30 seconds after its notice, so a long
poll beats periodic polling."""
OK = 200


class GcpKey:
    """Follows one metadata value: returns the current value first, then every change."""

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
        """Return the current notices, after a change or when the long poll expires."""
        query, within_s = "", self._within_s
        if self._etag:
            query = f"?wait_for_change=true&timeout_sec={self._wait_s}&last_etag={self._etag}"
            within_s += self._wait_s
        response = fetch(
            self._url + query, headers={"Metadata-Flavor": "Google"}, within_s=within_s
        )
        if response is None:
            # Instances of this kind have no such value, and the server would not hold the poll.
            self._etag = ""
            raise MetadataError(f"{self._url}: not found")
        if response.status != OK or response.headers.get(FLAVOR, "").lower() != "google":
            self._etag = ""
            raise MetadataError(
                f"{self._url}: not a response of a metadata server ({response.status})"
            )
        self._etag = response.headers.get("etag", "")
        notice = self._read(text(response))
        return () if notice is None else (notice,)


def preempted(value: str) -> Notice | None:
    """Return the notice for a value of `instance/preempted`."""
    if value.upper() != "TRUE":
        return None
    return Notice(kind=NoticeKind.RECLAIM, reason="preempted; the machine ends within 30 seconds")


def maintenance_event(value: str) -> Notice | None:
    """Return the notice for a value of `instance/maintenance-event`.

    Live migration loses nothing, but instances with GPUs cannot be migrated.
    """
    if not value.upper().startswith("TERMINATE"):
        return None
    return Notice(kind=NoticeKind.MAINTENANCE, reason=f"host maintenance: {value}")


def gcp_sources(
    address: str = ADDRESS, *, within_s: float = 2.0, wait_s: int = WAIT_S
) -> tuple[GcpKey, GcpKey]:
    """Return the sources for preemption and for maintenance."""
    return (
        GcpKey("preempted", preempted, address, within_s=within_s, wait_s=wait_s),
        GcpKey("maintenance-event", maintenance_event, address, within_s=within_s, wait_s=wait_s),
    )
