"""How many heartbeats a CPU-second takes: `python -m bench.ingest [--go FOLDER]`, JSON on stdout.

The load comes from another process over loopback, on a core of its own. Every encoding is measured
with 64 and 512 connections of 10,000 nodes with 8 GPUs, several rounds one after the other, and
the binaries of the Go system in between: ratios are of the same round. CPU time is the server's
own, user and system, as the kernel counts it. Then 5,000 connections send at a fixed rate, and all
nodes are listed several times.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ingest_load import ENCODINGS, TOKEN, node_name, write_requests

HERE = Path(__file__).parent
GO_FOLDER = HERE.parent.parent / "shared" / "reference-bin"
GO = "go-control-plane"
GO_CONFIG = """
server: {{address: "127.0.0.1:{port}", heartbeat_interval: 30s, heartbeat_timeout: 30m}}
providers: {{fake: {{type: fake, gpu_count: 8}}}}
pools: {{idle: {{provider: fake, instance_type: h100-8x, min_nodes: 0, max_nodes: 4}}}}
"""

NODES = 10_000
CONNECTIONS = (64, 512)
GO_ENCODINGS = ("connect_proto", "connect_json")
TARGETS = {"connect_proto": 1.0, "packed": 2.0, "batch": 5.0}
"""The least ratio to the protobuf heartbeats of the Go system."""
GRPC_RATIO_MIN = 5.0
LISTS = 5
"""The lists of all nodes that one figure is the mean of: the kernel counts ticks of 10 ms."""
LIVE_RATE = 10_000
LIVE_CONNECTIONS = 5_000
LIVE_CORES_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server under measurement."""

    name: str
    pid: int
    ports: dict[str, int]
    """The port by protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One measurement."""

    encoding: str
    connections: int
    rate: int = 0
    measure_s: float = 3.0
    warm_s: float = 0.5


class Bench:
    """Runs the generator against servers."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._load = _load_command(scratch)

    def measure(self, target: Target, scene: Scene) -> dict[str, Any]:
        """Return what one server did under one load."""
        encoding = ENCODINGS[scene.encoding]
        requests = self._scratch / f"{scene.encoding}.bin"
        if not requests.exists():
            write_requests(requests, encoding, NODES)
        numbers = [scene.connections, scene.warm_s, scene.measure_s, scene.rate]
        arguments = [encoding.protocol, str(target.ports[encoding.protocol]), *map(str, numbers)]
        generator = subprocess.Popen(
            on_core([*self._load, *arguments, str(requests), encoding.path, TOKEN], 1),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert generator.stdout is not None
        _expect(generator.stdout.readline(), "begin")
        before = _cpu_seconds(target.pid)
        _expect(generator.stdout.readline(), "end")
        cpu_s = _cpu_seconds(target.pid) - before
        seen = json.loads(generator.stdout.read())
        generator.wait()
        measured = seen["measured"] * encoding.nodes
        return {
            "heartbeats": measured,
            "per_cpu_second": round(measured / cpu_s),
            "per_second": round(measured / seen["seconds"]),
            "cores": round(cpu_s / seen["seconds"], 3),
            "p50_ms": seen["p50_ms"],
            "p99_ms": seen["p99_ms"],
            "refused": seen["failed"],
            "lost": (seen["sent"] - seen["acknowledged"]) * encoding.nodes,
            "acknowledged": seen["acknowledged"] * encoding.nodes,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of each scene")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--go", type=Path, help="folder with the binaries of the Go system")
    parser.add_argument("--only", nargs="*", default=list(ENCODINGS), help="encodings")
    parser.add_argument("--connections", type=int, nargs="*", default=CONNECTIONS)
    parser.add_argument("--no-live", action="store_true", help="leave out the fixed rate")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        scratch = Path(folder)
        bench = Bench(scratch)
        program = _go_program(options.go, scratch)
        go = stack.enter_context(go_server(program, scratch)) if program else None
        ours = stack.enter_context(our_server())
        rounds = [
            _round(bench, go, ours.target, options.only, options.connections, options.seconds)
            for _ in range(options.rounds)
        ]
        live = None if options.no_live else _measure_live(bench, ours.target, options.seconds)
        lists = [_list_nodes(go, ours.target) for _ in range(options.rounds)]
        acknowledged = sum(
            scene["acknowledged"]
            for each in [*rounds, {"live": live} if live else {}]
            for name, scene in each.items()
            if not name.startswith("go ")
        )
        report = _report(rounds, live)
        report["list_nodes_cpu_ms"] = {
            name: {
                "median": round(statistics.median(each[name] for each in lists), 1),
                "spread": [min(each[name] for each in lists), max(each[name] for each in lists)],
            }
            for name in lists[0]
        }
        report["lost"] = abs(ours.stop() - acknowledged)
    report["targets"]["none_lost"] = not report["lost"]
    print(json.dumps(report, indent=2))
    return 0 if all(report["targets"].values()) else 1


def _round(
    bench: Bench,
    go: Target | None,
    ours: Target,
    encodings: list[str],
    connections: list[int],
    seconds: float,
) -> dict[str, dict[str, Any]]:
    """Measure every scene once."""
    found = {}
    for count in connections:
        for name in encodings:
            scene = Scene(encoding=name, connections=count, measure_s=seconds)
            if name == "grpc" and count != min(connections):
                continue
            for target in (go, ours):
                if target is not None and (target is ours or name in GO_ENCODINGS):
                    found[f"{target.name} {name} {count}"] = bench.measure(target, scene)
    return found


def _measure_live(bench: Bench, ours: Target, seconds: float) -> dict[str, Any]:
    return bench.measure(
        ours,
        Scene(
            encoding="packed",
            connections=LIVE_CONNECTIONS,
            rate=LIVE_RATE,
            measure_s=2 * seconds,
            warm_s=2.0,
        ),
    )


def _list_nodes(go: Target | None, ours: Target) -> dict[str, float]:
    """Return the CPU time of a list of all nodes, in milliseconds."""
    found = {}
    for form, body in (("proto", b""), ("json", b"{}")):
        headers = {"Content-Type": f"application/{form}", "Authorization": f"Bearer {TOKEN}"}
        for target in (go, ours):
            if target is None:
                continue
            connection = http.client.HTTPConnection("127.0.0.1", target.ports["http"])
            before = _cpu_seconds(target.pid)
            for _ in range(LISTS):
                connection.request("POST", "/navarch.ControlPlaneService/ListNodes", body, headers)
                reply = connection.getresponse()
                size = len(reply.read())
                if reply.status != 200 or size < 100 * NODES:
                    raise SystemExit(f"{target.name} listed {size} bytes: {reply.status}")
            spent_s = _cpu_seconds(target.pid) - before
            found[f"{target.name} {form}"] = round(1000 * spent_s / LISTS, 1)
            connection.close()
    return found


def _report(rounds: list[dict[str, dict[str, Any]]], live: dict[str, Any] | None) -> dict[str, Any]:
    scenes, ratios, targets = {}, {}, {}
    for name in rounds[0]:
        values = [each[name]["per_cpu_second"] for each in rounds]
        scenes[name] = {
            "per_cpu_second": round(statistics.median(values)),
            "spread": [min(values), max(values)],
            "p99_ms": statistics.median(each[name]["p99_ms"] for each in rounds),
            "refused": sum(each[name]["refused"] for each in rounds),
        }
        system, encoding, count = name.split()
        base = f"go connect_proto {count}"
        if system == "go" or base not in rounds[0]:
            continue
        shares = [each[name]["per_cpu_second"] / each[base]["per_cpu_second"] for each in rounds]
        ratios[f"{encoding} {count}"] = {
            "median": round(statistics.median(shares), 2),
            "spread": [round(min(shares), 2), round(max(shares), 2)],
        }
        if encoding in TARGETS:
            targets[f"{encoding} {count}"] = statistics.median(shares) >= TARGETS[encoding]
    report: dict[str, Any] = {"per_cpu_second": scenes, "over_go_connect_proto": ratios}
    first = min((int(name.split()[2]) for name in scenes), default=0)
    if f"ours grpc {first}" in scenes and f"ours packed {first}" in scenes:
        packed, grpc = (scenes[f"ours {x} {first}"]["per_cpu_second"] for x in ("packed", "grpc"))
        report["packed_over_grpc"] = round(packed / grpc, 2)
        targets["packed_over_grpc"] = packed / grpc >= GRPC_RATIO_MIN
    if live is not None:
        report["live_connections"] = live
        targets["live_rate"] = live["per_second"] >= 0.99 * LIVE_RATE
        targets["live_cores"] = live["cores"] < LIVE_CORES_MAX
    return {**report, "targets": targets}


class OurServer:
    """`bench.ingest_server` in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", ports: dict[str, int]) -> None:
        self._process = process
        self.target = Target(name="ours", pid=process.pid, ports=ports)

    def stop(self) -> int:
        """End the server; return how many heartbeats it received."""
        self._process.terminate()
        assert self._process.stdout is not None
        received = int(json.loads(self._process.stdout.readline())["received"])
        self._process.wait()
        return received


@contextmanager
def our_server(nodes: int = NODES) -> Iterator[OurServer]:
    """Start our server with `nodes` nodes."""
    command = [sys.executable, "-m", "bench.ingest_server", "--nodes", str(nodes)]
    command += ["--token", TOKEN]
    process = subprocess.Popen(
        on_core(command, 0), stdout=subprocess.PIPE, text=True, cwd=HERE.parent
    )
    try:
        assert process.stdout is not None
        word, http_port, grpc_port = process.stdout.readline().split()
        _expect(word, "ready")
        yield OurServer(process, {"http": int(http_port), "grpc": int(grpc_port)})
    finally:
        process.kill()
        process.wait()


def _go_program(folder: Path | None, scratch: Path) -> Path | None:
    """Return the program of the Go system, unpacked; None if its binaries are not here."""
    place = folder or GO_FOLDER
    if (place / GO).exists():
        return place / GO
    if (place / "unpack").exists():
        subprocess.run([place / "unpack", scratch], check=True, stdout=subprocess.DEVNULL)
        return scratch / GO
    if folder is not None:
        raise SystemExit(f"{folder} has no {GO}")
    return None


@contextmanager
def go_server(program: Path, scratch: Path, nodes: int = NODES) -> Iterator[Target]:
    """Start the Go system's control plane with `nodes` nodes."""
    config = scratch / "go.yaml"
    config.write_text(GO_CONFIG.format(port=0))
    log = scratch / "go.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            on_core([str(program), "-config", str(config), "-auth-token", TOKEN], 0),
            stdout=output,
            stderr=output,
        )
    try:
        port = _port_of(process.pid)
        _register(port, nodes)
        yield Target(name="go", pid=process.pid, ports={"http": port})
    finally:
        process.kill()
        process.wait()


def _port_of(pid: int) -> int:
    """Return the port at which a process listens."""
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        listening = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True)
        for line in listening.stdout.splitlines():
            if f"pid={pid}," in line and (found := re.search(r":(\d+)\s", line)):
                return int(found[1])
        time.sleep(0.05)
    raise SystemExit("the Go system does not listen")


def _register(port: int, nodes: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    for number in range(nodes):
        gpus = [{"index": index, "uuid": f"GPU-{number}-{index}"} for index in range(8)]
        body = json.dumps({"nodeId": node_name(number), "gpus": gpus})
        connection.request("POST", "/navarch.ControlPlaneService/RegisterNode", body, headers)
        reply = connection.getresponse()
        reply.read()
        if reply.status != 200:
            raise SystemExit(f"the Go system refused a registration: {reply.status}")
    connection.close()


def _load_command(scratch: Path) -> list[str]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return [sys.executable, str(HERE / "heartbeat_load.py")]
    program = str(scratch / "heartbeat_load")
    subprocess.run([compiler, "-O2", "-o", program, str(HERE / "heartbeat_load.c")], check=True)
    return [program]


def _cpu_seconds(pid: int) -> float:
    # The command's name may hold spaces; what follows its closing bracket does not.
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def on_core(command: list[str], core: int) -> list[str]:
    """Return `command` bound to one core, if there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or shutil.which("taskset") is None:
        return command
    return ["taskset", "-c", str(cores[core]), *command]


def _expect(line: str, word: str) -> None:
    if line.strip() != word:
        raise RuntimeError(f"expected {word!r}, got {line!r}")


if __name__ == "__main__":
    sys.exit(main())
