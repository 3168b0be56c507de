"""Local services for channels that speak HTTP, with their faults."""

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from navarch.clock import SystemClock
from navarch.testing.alert_channel_contract import SECRET, AlertChannelContract
from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

CLOCK = SystemClock()


class HttpChannelContract(AlertChannelContract):
    """The contract, and what is particular to HTTP."""

    wire: Wire
    url: str

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Validate a request as the real service does, and answer it."""
        raise NotImplementedError

    @pytest.fixture
    def service(self) -> Iterator[None]:
        self.wire = Wire()
        self.accepted: list[HttpRequest] = []
        with serve(self._answer, self.wire) as self.url:
            yield

    def _answer(self, request: HttpRequest) -> HttpResponse:
        response = self.answer(request)
        if response.status < 300:
            self.accepted.append(request)
        return response

    def received(self) -> list[str]:
        return [request.body.decode() for request in self.accepted]

    def refuse(self) -> None:
        self.wire.fault = lambda request: HttpResponse(403, repr(request).encode())

    def overload(self) -> None:
        self.wire.fault = lambda _: HttpResponse(429, b"slow down", {"Retry-After": "77"})

    def hang(self) -> None:
        def wait(_: HttpRequest) -> str:
            threading.Event().wait(0.6)  # longer than the channel waits
            return "lose request"

        self.wire.fault = wait

    @pytest.mark.usefixtures("service")
    def test_the_pause_that_the_service_asks_for_is_reported(self) -> None:
        self.overload()
        assert self.fail().retry_after == timedelta(seconds=77)

    @pytest.mark.parametrize("status", [500, 502, 503, 408])
    @pytest.mark.usefixtures("service")
    def test_an_outage_is_no_refusal(self, status: int) -> None:
        self.wire.fault = lambda _: HttpResponse(status, b"")
        assert not self.fail().refused

    @pytest.mark.usefixtures("service")
    def test_a_redirect_is_not_followed_with_the_secret(self) -> None:
        self.wire.fault = lambda _: HttpResponse(302, b"", {"Location": "http://evil/" + SECRET})
        assert self.fail().refused

    @pytest.mark.usefixtures("service")
    def test_a_lost_answer_is_an_error(self) -> None:
        self.wire.fault = lambda _: "lose answer"
        assert not self.fail().refused
        assert self.accepted


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
