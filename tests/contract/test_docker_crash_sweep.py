"""A crash at every call to a real Docker engine, and at every commit in between."""

import http.client
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from tests.support.docker_engine import EngineDidNotStartError, docker_engine, engine_missing

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.http.message import Endpoint, Response
from navarch.http.pool import ConnectionPool
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Provider
from navarch.providers.docker import Containers, Docker, Engine
from navarch.providers.docker.provider import decode, target
from navarch.sim.world.leader import CrashPoint
from navarch.testing.adapter_sweep import SweptFleet, TrippedOffload, sweep_once

OFFERING = Offering(provider=ProviderName("docker"), instance_type="box", region="here")
SLEEPING = Containers(image="navarch/test", command=("sleep", "100000"), network="none")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class BlockingEngine(Engine):
    """An engine with blocking sockets: virtual time has no event loop sockets."""

    def __init__(self, path: str, offload: Offload, made: list[str]) -> None:
        """Record every created container in `made`."""
        super().__init__(ConnectionPool(Endpoint(host="docker", socket=path)), path)
        self._made = made
        self._path = path
        self._offload = offload

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Response:
        return await self._offload.run(lambda: self.request_now(method, path, query, body))

    def request_now(
        self, method: str, path: str, query: Mapping[str, str] | None, body: object = None
    ) -> Response:
        connection = _Connection(self._path)
        content = b"" if body is None else msgspec.json.encode(body)
        connection.request(
            method, target(path, query), content, {"Content-Type": "application/json"}
        )
        reply = connection.getresponse()
        response = Response(status=reply.status, headers={}, body=reply.read())
        connection.close()
        if path == "/containers/create" and response.status == 201:
            self._made.append(decode(response)["Id"])
        return response


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="nd") as folder:
        try:
            with docker_engine(Path(folder)) as address:
                yield address.removeprefix("unix://")
        except EngineDidNotStartError as error:
            pytest.skip(f"the engine did not start: {error}")


def live(path: str, wire: CrashPoint) -> SweptFleet:
    now = BlockingEngine(path, TrippedOffload(CrashPoint()), made=[])
    made: list[str] = []

    def alive() -> set[str]:
        found = decode(now.request_now("GET", "/containers/json", {"all": "1"}))
        return {each["Id"] for each in found}

    def build(_clock: Clock, offload: Offload) -> Provider:
        return Docker(BlockingEngine(path, offload, made), SLEEPING)

    swept = sweep_once(build, OFFERING, alive=alive, wire=wire)
    assert alive() == set(), f"call {wire.at} of {wire.log}"
    # Three containers in all: none was created only to be removed.
    assert len(made) == 3, f"call {wire.at} of {wire.log}"
    return swept


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_leaks_and_duplicates_no_container(path: str, after: bool) -> None:
    calls = live(path, CrashPoint()).wire.calls
    for at in range(calls):
        swept = live(path, CrashPoint(at=at, after=after))
        assert swept.crashes == 1, f"no crash at call {at} of {calls}"
