"""How many heartbeats a CPU-second takes: `python -m bench.ingest`, JSON on stdout.

The load comes from another process over loopback. The same handler is measured behind HTTP and
behind grpc.aio unary in the same run, then HTTP with thousands of live connections. CPU time is
the server's own, user and system, as the kernel counts it.
"""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from navarch.wire.v1.agent_pb2 import HeartbeatRequest

HERE = Path(__file__).parent
TOKEN = "bench-token"
HTTP_PATH = "/v1/agent/heartbeat"
GRPC_PATH = "/navarch.v1.AgentService/Heartbeat"

PER_CPU_SECOND_MIN = 20_000
RATIO_MIN = 5.0
RATE = 10_000
CONNECTIONS = 5_000
CORES_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One measurement."""

    door: str
    connections: int
    rate: int = 0
    measure_s: float = 5.0
    warm_s: float = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time of each scene")
    parser.add_argument("--python-load", action="store_true", help="do not use the C generator")
    parser.add_argument(
        "--pin", action="store_true", help="one core for the server, one for the load"
    )
    options = parser.parse_args()
    if options.pin:
        _pinned.append(True)
    with tempfile.TemporaryDirectory() as scratch:
        load = _load_command(Path(scratch), python_only=options.python_load)
        hot = measure(Scene(door="http", connections=64, measure_s=options.seconds), load, scratch)
        grpc = measure(Scene(door="grpc", connections=64, measure_s=options.seconds), load, scratch)
        live = measure(
            Scene(
                door="http",
                connections=CONNECTIONS,
                rate=RATE,
                measure_s=2 * options.seconds,
                warm_s=2.0,
            ),
            load,
            scratch,
        )
    ratio = hot["per_cpu_second"] / grpc["per_cpu_second"]
    report = {
        "load": "c" if len(load) == 1 else "python",
        "http": hot,
        "grpc_aio_unary": grpc,
        "http_over_grpc": round(ratio, 2),
        "live_connections": live,
        "targets": {
            "per_cpu_second": hot["per_cpu_second"] >= PER_CPU_SECOND_MIN,
            "http_over_grpc": ratio >= RATIO_MIN,
            "live_rate": live["per_second"] >= 0.99 * RATE,
            "live_cores": live["cores"] < CORES_MAX,
            "none_lost": not (hot["lost"] or grpc["lost"] or live["lost"]),
        },
    }
    print(json.dumps(report, indent=2))
    return 0 if all(report["targets"].values()) else 1


def measure(scene: Scene, load: list[str], scratch: str) -> dict[str, Any]:
    """Return what one server did under one load."""
    requests = Path(scratch, f"{scene.door}-{scene.connections}.bin")
    requests.write_bytes(b"".join(_framed(scene)))
    path = HTTP_PATH if scene.door == "http" else GRPC_PATH
    with _server(scene) as (server, port):
        numbers = [scene.connections, scene.warm_s, scene.measure_s, scene.rate]
        arguments = [scene.door, str(port), *map(str, numbers), str(requests), path, TOKEN]
        generator = subprocess.Popen(
            _on_core([*load, *arguments], 1), stdout=subprocess.PIPE, text=True
        )
        assert generator.stdout is not None
        _expect(generator.stdout.readline(), "begin")
        before = _cpu_seconds(server.pid)
        _expect(generator.stdout.readline(), "end")
        cpu_s = _cpu_seconds(server.pid) - before
        seen = json.loads(generator.stdout.read())
        generator.wait()
        server.terminate()
        assert server.stdout is not None
        kept = json.loads(server.stdout.readline())
        server.wait()
    return {
        "connections": scene.connections,
        "heartbeats": seen["measured"],
        "seconds": seen["seconds"],
        "per_second": round(seen["measured"] / seen["seconds"]),
        "server_cpu_s": round(cpu_s, 2),
        "cores": round(cpu_s / seen["seconds"], 3),
        "per_cpu_second": round(seen["measured"] / cpu_s),
        "p50_ms": seen["p50_ms"],
        "p99_ms": seen["p99_ms"],
        "lost": seen["sent"] - seen["acknowledged"] + abs(kept["received"] - seen["acknowledged"]),
        "nodes_with_readings": kept["nodes"],
    }


@contextmanager
def _server(scene: Scene) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "bench.ingest_server", "--door", scene.door]
    command += ["--nodes", str(scene.connections), "--token", TOKEN]
    server = subprocess.Popen(
        _on_core(command, 0), stdout=subprocess.PIPE, text=True, cwd=HERE.parent
    )
    try:
        assert server.stdout is not None
        word, port = server.stdout.readline().split()
        _expect(word, "ready")
        yield server, int(port)
    finally:
        server.kill()


def _load_command(scratch: Path, *, python_only: bool) -> list[str]:
    compiler = None if python_only else shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return [sys.executable, str(HERE / "heartbeat_load.py")]
    program = str(scratch / "heartbeat_load")
    subprocess.run([compiler, "-O2", "-o", program, str(HERE / "heartbeat_load.c")], check=True)
    return [program]


def _framed(scene: Scene) -> Iterator[bytes]:
    chance = Random(1)
    for number in range(scene.connections):
        body = _heartbeat(number, chance)
        if scene.door == "http":
            body = (
                f"POST {HTTP_PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Type: application/proto\r\nContent-Length: {len(body)}\r\n\r\n"
            ).encode() + body
        yield struct.pack("<I", len(body)) + body


def _heartbeat(number: int, chance: Random) -> bytes:
    return HeartbeatRequest(
        node_id=f"node-{number:06d}",
        sequence=number,
        cpu_pct=chance.uniform(0, 100),
        memory_pct=chance.uniform(0, 100),
        temperature_c=[chance.uniform(30, 85) for _ in range(8)],
        power_w=[chance.uniform(90, 700) for _ in range(8)],
        utilization_pct=[chance.uniform(0, 100) for _ in range(8)],
        memory_used_mib=[chance.uniform(0, 81_920) for _ in range(8)],
    ).SerializeToString()


def _cpu_seconds(pid: int) -> float:
    # The command's name may hold spaces; what follows its closing bracket does not.
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def _on_core(command: list[str], core: int) -> list[str]:
    """Return `command` bound to one core, for a quiet machine; a busy one places it better."""
    cores = sorted(os.sched_getaffinity(0))
    if not _pinned or len(cores) < 2:
        return command
    return ["taskset", "-c", str(cores[core]), *command]


_pinned: list[bool] = []


def _expect(line: str, word: str) -> None:
    if line.strip() != word:
        raise RuntimeError(f"expected {word!r}, got {line!r}")


if __name__ == "__main__":
    sys.exit(main())
