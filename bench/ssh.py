"""How fast machines are set up over SSH, as JSON.

Two figures, each through the reconciler of the product: many machines with slow commands, behind
SSH servers in the same process; and as many as the real OpenSSH server on this machine can serve.
"""

import argparse
import asyncio
import json
import logging
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog
from tests.support.ssh_machines import SshMachine, real_sshd, ssh_servers, sshd_missing

from navarch.app.control_plane import Plane
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.control.nodes.bringup import BringUp
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Launch, Offering
from navarch.core.machine_setup import MachineSetup
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.notifiers.log import LogWorkloads
from navarch.ports.shell import Login
from navarch.ssh.client import SshShells
from navarch.stores.evidence import FolderBringUpLogs
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

COMMANDS = (
    "install --server {{.ControlPlane}} --node {{.NodeID}}",
    "configure --pool {{.Pool}} --provider {{.Provider}} --region {{.Region}}",
    "start --type {{.InstanceType}} --join {{.JoinToken}}",
)
REAL_COMMANDS = ("true {{.NodeID}}", "echo {{.ControlPlane}} > server", "test -s server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """One run."""

    wall_s: float
    cpu_s: float


async def bring_up(logins: Sequence[Login], commands: Sequence[str], folder: Path) -> Took:
    """Set every machine up, from a fleet in which all have just booted, with real logs."""
    store = MemoryStore(Cluster(id="bench", secret=b"bench"))
    clock = SystemClock()
    now = clock.now()
    offering = Offering(provider=ProviderName("bench"), instance_type="h100-8x")
    pool = Pool(
        name=PoolName("bench"), offerings=(offering,), nodes_min=len(logins), nodes_max=len(logins)
    )
    nodes = []
    for index, login in enumerate(logins):
        name = NodeId(f"bench-{index}")
        launch = Launch(
            token=Token(f"t-{index}"),
            node=name,
            pool=pool.name,
            offering=offering,
            asked_at=now,
            instance=InstanceId(f"i-{index}"),
            public_address=login.address,
            launched_at=now,
        )
        nodes.append(
            Node(
                id=name,
                pool=pool.name,
                phase=Phase.BOOTING,
                since=now,
                created_at=now,
                launch=launch,
            )
        )
    pool = evolve(pool, next_index=len(nodes))
    await store.commit(Change(pools=[pool], nodes=nodes), based_on=store.fleet().revision)
    done = asyncio.Event()
    left = len(nodes)

    def count(committed: object) -> None:
        nonlocal left
        events = committed.change.events  # type: ignore[attr-defined]
        for event in events:
            assert event.kind != "node.setup_failed", event.reason
            left -= event.kind == "node.set_up"
        if left == 0:
            done.set()

    store.subscribe(count)
    disk = ThreadOffload("logs")
    first = logins[0]
    plane = Plane(
        clock,
        SystemEntropy(),
        store,
        providers=[],
        notifier=LogWorkloads(),
        liveness=TelemetryTable(clock, timeout=timedelta(hours=1)),
        bringup=BringUp(
            shells=SshShells(),
            logs=FolderBringUpLogs(folder, disk),
            setup=lambda _: MachineSetup(
                commands=tuple(commands),
                user=first.user,
                port=first.port,
                key_file=first.key_file,
            ),
            control_plane=lambda _: "http://10.0.0.1:50051",
            join_token=lambda node, _: f"join-{node}",
        ),
    )
    wall, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as tasks:
        life = tasks.create_task(plane.run())
        await done.wait()
        life.cancel()
    took = Took(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)
    disk.close()
    return took


def in_process(count: int, command_s: float, repeats: int) -> dict[str, object]:
    """Measure against asyncssh's server in this very process: its work is a part of it, too."""

    async def once(folder: Path) -> Took:
        async with ssh_servers(folder, count, command_s=command_s) as machines:
            logins = [machine.login for machine in machines]
            return await bring_up(logins, COMMANDS, folder / "logs")

    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(asyncio.run(once(Path(folder))))
    walls = [run.wall_s for run in runs]
    return {
        "nodes": count,
        "commands": len(COMMANDS),
        "command_ms": command_s * 1000,
        "wall_s": [round(wall, 2) for wall in walls],
        "wall_s_median": round(statistics.median(walls), 2),
        "cpu_s_median": round(statistics.median(run.cpu_s for run in runs), 2),
        "limit_s": 20,
        "kept": statistics.median(walls) < 20,
    }


def openssh(count: int, repeats: int) -> dict[str, object]:
    """Measure against the real sshd; its own work on this machine's cores is a part of it."""
    missing = sshd_missing()
    if missing is not None:
        return {"skipped": missing}
    rates, cpus = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder, real_sshd(Path(folder), count) as machines:
            found: Sequence[SshMachine] = machines
            logins = [machine.login for machine in found]
            took = asyncio.run(bring_up(logins, REAL_COMMANDS, Path(folder) / "logs"))
            rates.append(count / took.wall_s)
            cpus.append(took.cpu_s / count)
    return {
        "nodes": count,
        "commands": len(REAL_COMMANDS),
        "nodes_per_s": [round(rate, 1) for rate in rates],
        "nodes_per_s_median": round(statistics.median(rates), 1),
        "our_cpu_ms_per_node": round(1000 * statistics.median(cpus), 1),
        "limit_nodes_per_s": 8,
        "kept": statistics.median(rates) >= 8,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--openssh-nodes", type=int, default=40)
    parser.add_argument("--command-ms", type=float, default=50.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(
        json.dumps(
            {
                "cores": os.cpu_count(),
                "load_before": round(os.getloadavg()[0], 1),
                "in_process": in_process(options.nodes, options.command_ms / 1000, options.repeats),
                "openssh": openssh(options.openssh_nodes, options.repeats),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
