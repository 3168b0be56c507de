"""What heartbeat_load.c does, for machines without a C compiler. Same arguments, same output."""

import asyncio
import json
import resource
import struct
import sys
from collections import deque
from pathlib import Path
from time import monotonic
from typing import cast

import grpc
import uvloop


class Load:
    """Sends requests on idle connections, and counts what comes of them."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.idle: deque[Connection] = deque()
        self.sent = self.acknowledged = self.failed = 0
        self.latencies: list[float] = []
        self.measure_from = 0.0
        self.until = 0.0

    def complete(self, connection: "Connection", *, ok: bool) -> None:
        """Note that a request has been answered."""
        self.acknowledged += ok
        self.failed += not ok
        if ok and self.measure_from and connection.due >= self.measure_from:
            self.latencies.append(monotonic() - connection.due)
        self.idle.append(connection)
        if not self.rate and monotonic() < self.until:
            self.start(monotonic())

    def start(self, due: float) -> None:
        """Send on the connection that has been idle longest."""
        connection = self.idle.popleft()
        connection.due = due
        self.sent += 1
        connection.send()

    async def run(self, warm_s: float, measure_s: float) -> dict[str, float]:
        """Send for so long; return what was seen."""
        begin = monotonic()
        measure_at, self.until = begin + warm_s, begin + warm_s + measure_s
        before, scheduled = 0, 0
        if not self.rate:
            for _ in range(len(self.idle)):
                self.start(monotonic())
        while (now := monotonic()) < self.until:
            if not self.measure_from and now >= measure_at:
                self.measure_from, before = now, self.acknowledged
                print("begin", flush=True)
            while self.rate and self.idle and begin + scheduled / self.rate <= now:
                self.start(begin + scheduled / self.rate)
                scheduled += 1
            await asyncio.sleep(0.001)
        seconds = monotonic() - self.measure_from
        measured = self.acknowledged - before
        print("end", flush=True)
        give_up = monotonic() + 5
        while self._under_way() and monotonic() < give_up:  # noqa: ASYNC110 - not worth an event
            await asyncio.sleep(0.05)
        self.latencies.sort()
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "measured": measured,
            "seconds": round(seconds, 3),
            **{f"{name}_ms": self._percentile(q) for name, q in PERCENTILES.items()},
        }

    def _under_way(self) -> int:
        return self.sent - self.acknowledged - self.failed

    def _percentile(self, q: float) -> float:
        if not self.latencies:
            return 0.0
        return round(self.latencies[int((len(self.latencies) - 1) * q)] * 1000, 3)


PERCENTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


class Connection:
    """One client."""

    due = 0.0

    def send(self) -> None:
        """Send the request."""
        raise NotImplementedError


class HttpConnection(asyncio.Protocol, Connection):
    """Replies to heartbeats have no body, so the end of the head is the end."""

    def __init__(self, load: Load, request: bytes) -> None:
        self._load = load
        self._request = request
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        # uvloop's transports do not inherit from asyncio's, but do the same.
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        """Send the request."""
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Look for the end of the reply."""
        self._got += data
        if self._got.endswith(b"\r\n\r\n"):
            ok, self._got = self._got.startswith(b"HTTP/1.1 200"), b""
            self._load.complete(self, ok=ok)


class GrpcConnection(Connection):
    """One channel with one call at a time."""

    def __init__(self, load: Load, target: str, path: str, token: str, request: bytes) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(target, options=options)
        self._ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        self._load = load
        self._request = request
        self._metadata = (("authorization", f"Bearer {token}"),)

    def send(self) -> None:
        """Make the call."""
        call = self._ask(self._request, metadata=self._metadata)
        call.add_done_callback(lambda done: self._load.complete(self, ok=_succeeded(done)))


def _succeeded(call: object) -> bool:
    return not getattr(call, "cancelled")() and "StatusCode.OK" in repr(call)  # noqa: B009


def _requests(file: str) -> list[bytes]:
    data, found, at = Path(file).read_bytes(), [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


async def main(arguments: list[str]) -> None:
    mode, port, count, warm_s, measure_s, rate, file, path, token = arguments
    load = Load(float(rate))
    requests = _requests(file)
    for number in range(int(count)):
        request = requests[number % len(requests)]
        if mode == "http":
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                lambda request=request: HttpConnection(load, request),  # type: ignore[misc]
                "127.0.0.1",
                int(port),
            )
            load.idle.append(connection)
        else:
            load.idle.append(GrpcConnection(load, f"127.0.0.1:{port}", path, token, request))
    print(json.dumps(await load.run(float(warm_s), float(measure_s))), flush=True)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(main(sys.argv[1:]))
