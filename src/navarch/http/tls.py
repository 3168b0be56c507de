"""TLS of clients: the authorities that they trust, and their own certificate."""

import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from navarch.core.errors import InvalidError

MakeContext = Callable[[], ssl.SSLContext]
"""Returns the TLS settings of the next connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPaths:
    """The files of a client: authorities to trust, and its own certificate with its key."""

    ca: Path | None = None
    """None: the authorities of the system."""
    cert: Path | None = None
    key: Path | None = None
    insecure: bool = False
    """Whether every server is accepted."""


class ClientTls:
    """TLS settings from files, which are read again when they change."""

    def __init__(self, paths: TlsPaths) -> None:
        """Raise InvalidError for a file that cannot be used."""
        if (paths.cert is None) is not (paths.key is None):
            raise InvalidError("a client certificate needs both its file and the file of its key")
        self._paths = paths
        self._seen = self._state()
        self._context = self._build()

    def __call__(self) -> ssl.SSLContext:
        """Return the settings; those of before if the files cannot be used at the moment."""
        seen = self._state()
        if seen != self._seen:
            # A file that is being replaced is used by a later connection.
            with suppress(InvalidError):
                self._context, self._seen = self._build(), seen
        return self._context

    def _state(self) -> Sequence[tuple[int, ...] | None]:
        return [file_state(x) for x in (self._paths.ca, self._paths.cert, self._paths.key)]

    def _build(self) -> ssl.SSLContext:
        paths = self._paths
        named = paths.ca
        try:
            context = ssl.create_default_context(cafile=paths.ca)
            if paths.cert is not None:
                named = paths.cert
                context.load_cert_chain(paths.cert, paths.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidError(f"{named} cannot be used for TLS: {explain(error)}") from error
        if paths.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def file_state(file: Path | None) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced or rewritten; None if there is none."""
    if file is None:
        return None
    try:
        # A link of a Kubernetes secret stays the same, and what it names is another file.
        found = os.stat(file)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def explain(error: OSError) -> str:
    """Return what is wrong with a file of TLS, without OpenSSL's numbers."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "no certificate or key in PEM form").replace("_", " ").lower()
        if reason == "key values mismatch":
            return "the key does not belong to the certificate"
        return reason
    return error.strerror or str(error)
