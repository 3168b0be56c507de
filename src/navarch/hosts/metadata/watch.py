"""Watch metadata services on background threads.

A service that hangs blocks only its own thread. The threads are daemons: the process does not wait
for them when it ends.
"""

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import structlog

from navarch.core.duration import backoff_s
from navarch.core.instance import Notice
from navarch.hosts.filesystems import word
from navarch.hosts.metadata import aws, gcp
from navarch.ports.host import MetadataError, NoticeSource

log = structlog.get_logger("navarch.agent")

RETRY_S = (1.0, 60.0)
"""The first and the longest pause after a failure."""


class SourceWatch:
    """Polls each source repeatedly and holds its latest notices."""

    def __init__(
        self, sources: Sequence[NoticeSource], *, retry_s: tuple[float, float] = RETRY_S
    ) -> None:
        self._sources = sources
        self._retry_s = retry_s
        self._known: dict[str, tuple[Notice, ...]] = {}
        self._over = threading.Event()

    def start(self, on_change: Callable[[], None]) -> None:
        """Start one thread per source."""
        for source in self._sources:
            threading.Thread(
                target=self._follow,
                args=(source, on_change),
                name=f"metadata {source.name}",
                daemon=True,
            ).start()

    def notices(self) -> Sequence[Notice] | None:
        """Return the current notices; None if no source has responded yet."""
        known = dict(self._known)
        if not known:
            return None
        return [x for name in sorted(known) for x in known[name]]

    def stop(self) -> None:
        """Stop each thread at its next poll."""
        self._over.set()

    def _follow(self, source: NoticeSource, on_change: Callable[[], None]) -> None:
        failures = 0
        while not self._over.is_set():
            try:
                found = tuple(source.look())
            except MetadataError as error:
                failures += 1
                if failures == 1:
                    log.warning("agent.no_metadata", source=source.name, error=str(error))
                first_s, longest_s = self._retry_s
                self._over.wait(backoff_s(failures, first_s=first_s, longest_s=longest_s))
                continue
            except Exception:
                # An unexpected response must not end the watch.
                failures += 1
                log.exception("agent.metadata_broken", source=source.name)
                self._over.wait(self._retry_s[1])
                continue
            failures = 0
            if self._known.get(source.name) != found and not self._over.is_set():
                self._known[source.name] = found
                on_change()
            self._over.wait(source.pause_s)


DMI = Path("/sys/class/dmi/id")


class Service(StrEnum):
    """The supported metadata services."""

    AUTO = "auto"
    """The service that the firmware's vendor indicates; none if it indicates none."""
    AWS = "aws"
    GCP = "gcp"
    NONE = "none"


def detect(dmi: Path = DMI) -> Service:
    """Return the service of this machine from its DMI vendor, without network access."""
    vendor = word(dmi / "sys_vendor").lower()
    if vendor.startswith("amazon"):
        return Service.AWS
    return Service.GCP if vendor.startswith("google") else Service.NONE


def watch_service(service: Service, address: str = "", *, dmi: Path = DMI) -> SourceWatch | None:
    """Return the watch of a service, at its default address unless one is given."""
    match detect(dmi) if service is Service.AUTO else service:
        case Service.AWS:
            return SourceWatch([aws.AwsMetadata(address or aws.ADDRESS)])
        case Service.GCP:
            return SourceWatch(gcp.gcp_sources(address or gcp.ADDRESS))
    return None
