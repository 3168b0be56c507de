"""One request and its response as bytes, without I/O."""

import h11

from navarch.http.message import (
    DisconnectedError,
    NoResponseError,
    NotSentError,
    Request,
)

HEAD_BYTES_MAX = 64 * 1024
READ_BYTES = 64 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024
"""Larger than any listing of a cloud. A longer response is an error."""


def new_connection() -> h11.Connection:
    """Return the state of a new connection."""
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)


class Exchange:
    """One request and its response on a connection.

    The caller sends the bytes that `start` returns, and passes the bytes that it reads to
    `receive` until the exchange is complete. A redirect is a response like any other and is never
    followed: credentials go to the configured server only.
    """

    def __init__(
        self, connection: h11.Connection, peer: str, *, body_bytes_max: int | None = BODY_BYTES_MAX
    ) -> None:
        self._connection = connection
        self.peer = peer
        self._body_bytes_max = body_bytes_max
        self._body_bytes = 0
        self._responding = False
        self.headers: dict[str, str] = {}
        self.status = 0
        """Zero until the head of the response has arrived."""
        self.complete = False

    def start(self, request: Request) -> bytes:
        """Return the bytes of the request; raise NotSentError if it cannot be encoded."""
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Length"] = str(len(request.body))
        try:
            head = h11.Request(
                method=request.method,
                target=request.target,
                headers=[
                    (name.encode("latin-1"), value.encode("latin-1"))
                    for name, value in headers.items()
                ],
            )
            parts = [self._connection.send(head)]
            if request.body:
                parts.append(self._connection.send(h11.Data(data=request.body)))
            parts.append(self._connection.send(h11.EndOfMessage()))
        except (h11.LocalProtocolError, UnicodeEncodeError):
            # The cause would quote the header's value, which may be a key.
            raise NotSentError(f"{self.peer}: a header or URL that cannot be sent") from None
        return b"".join(part for part in parts if part)

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the server, none at the end of the connection.

        Returns the part of the body that they contain.
        """
        if not data and not self._responding:
            raise DisconnectedError(f"{self.peer} closed the connection")
        self._responding = True
        body = bytearray()
        try:
            self._connection.receive_data(data)
            while not self.complete:
                event = self._connection.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    break
                if isinstance(event, h11.Response):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._body_bytes += len(event.data)
                    self._check_size(self._body_bytes)
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self.complete = True
                elif not isinstance(event, h11.InformationalResponse):
                    raise NoResponseError(f"{self.peer} sent no response, but {event!r}")
        except h11.RemoteProtocolError as error:
            if not data:
                raise NoResponseError(
                    f"{self.peer} closed the connection during a response"
                ) from error
            raise NoResponseError(f"{self.peer} sent an invalid HTTP response: {error}") from error
        return bytes(body)

    def lost(self, error: OSError) -> NoResponseError:
        """Return the error for a connection that failed with `error`."""
        if isinstance(error, TimeoutError):
            return NoResponseError(f"{self.peer} did not respond in time")
        kind = NoResponseError if self._responding else DisconnectedError
        return kind(f"{self.peer} closed the connection: {str(error) or type(error).__name__}")

    def end(self) -> bool:
        """Prepare the connection for the next request; return False if it cannot carry one."""
        connection = self._connection
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return False
        if connection.trailing_data[0]:
            return False  # These bytes would be read as the next response.
        connection.start_next_cycle()
        return True

    def _begin(self, head: h11.Response) -> None:
        # h11 bounds an incomplete head only; the last read may have completed a larger one.
        if sum(len(name) + len(value) for name, value in head.headers) > HEAD_BYTES_MAX:
            raise NoResponseError(f"{self.peer}: the headers of the response are too large")
        self.status = head.status_code
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
        }
        self._check_size(int(self.headers.get("content-length", "0")))

    def _check_size(self, size: int) -> None:
        if self._body_bytes_max is not None and size > self._body_bytes_max:
            raise NoResponseError(
                f"{self.peer}: the response exceeds the limit of {self._body_bytes_max} bytes"
            )
