"""Where a forwarded request came from, signed so that nothing but a replica can state it."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import msgspec

from navarch.api.auth import ClientCertificate
from navarch.core.errors import NavarchError

HEADER = b"navarch-forwarded"
"""The header of HTTP, and the metadata of gRPC."""
GRPC_METHOD = b"gRPC"
"""Takes the place of the method of HTTP in signatures."""
SKEW_MAX_S = 30.0
"""How far the clocks of two replicas may differ."""


class StaleError(NavarchError):
    """A replica has signed this at another time."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The client of a request, as the replica that received it saw it."""

    peer: str
    """The address of the connection: failed logins are counted by it."""
    certificate: ClientCertificate | None = None
    """The certificate that the handshake has verified."""


class _Signed(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    origin: Origin


class Seal:
    """Signs origins, and reads them, with a key that every replica derives from the database."""

    def __init__(self, secret: bytes, wall: Callable[[], float]) -> None:
        """`wall` returns the seconds since 1970."""
        self._key = hmac.digest(secret, b"navarch: origin of a forwarded request", "sha256")
        self._wall = wall

    def sign(self, method: bytes, target: bytes, origin: Origin) -> bytes:
        """Return the value of the header for one request."""
        text = urlsafe_b64encode(msgspec.json.encode(_Signed(at=self._wall(), origin=origin)))
        return text + b"." + self._mac(method, target, text)

    def is_ours(self, method: bytes, target: bytes, shown: bytes) -> bool:
        """Return whether a replica has signed this for this very request, at any time."""
        text, _, mac = shown.partition(b".")
        return hmac.compare_digest(mac, self._mac(method, target, text))

    def read(self, method: bytes, target: bytes, shown: bytes) -> Origin | None:
        """Return what a replica has signed; None if no replica has.

        Raises StaleError for one that was signed too long ago, or in the future.
        """
        if not self.is_ours(method, target, shown):
            return None
        signed = _SIGNED.decode(urlsafe_b64decode(shown.partition(b".")[0]))
        age_s = self._wall() - signed.at
        if abs(age_s) > SKEW_MAX_S:
            raise StaleError(
                f"a replica forwarded this request {abs(age_s):.0f} s "
                f"{'ago' if age_s > 0 else 'in the future'}: synchronize the clocks of the replicas"
            )
        return signed.origin

    def _mac(self, method: bytes, target: bytes, text: bytes) -> bytes:
        # No part contains a line break, so no two requests are written in the same way.
        message = b"\n".join((method, target, text))
        return hmac.digest(self._key, message, "sha256").hex().encode()


_SIGNED = msgspec.json.Decoder(_Signed)
