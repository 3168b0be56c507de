"""`navarch agent record` and `navarch agent replay`."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from navarch.agent.recording import Recorder, Recording, read_recording, write_recording
from navarch.agent.replay import LoopClock, ScaledTimeLoop
from navarch.agent.replay import replay as play
from navarch.agent.transport import open_link
from navarch.cli.agent import kernel_boot_id
from navarch.cli.printing import echo, escaped
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.health import Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command
from navarch.gpus.nvml import NvmlGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.kmsg import open_kmsg
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import Link, Registration, Welcome

POLL_S = 0.05
"""Pause between two reads of the kernel log, in seconds."""


@click.command("record")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Length of the recording.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    help="Seconds between samples of the GPUs.",
)
def record(file: Path, seconds: float, interval: float) -> None:
    """Record GPU readings and kernel messages of this machine, without changing it."""
    clock = SystemClock()
    gpus, log = NvmlGpus(clock), open_kmsg(clock)
    if log is None:
        echo("Warning: cannot read the kernel log; the recording has no kernel messages.", err=True)
    try:
        with file.open("wb") as out:
            recorder = Recorder(clock, gpus, log, out.write, boot_id=kernel_boot_id())
            asyncio.run(_record(recorder, seconds=seconds, interval=interval))
    finally:
        gpus.close()
        if log is not None:
            log.close()
    echo(f"{recorder.records} records in {file}", err=True)


async def _record(recorder: Recorder, *, seconds: float, interval: float) -> None:
    clock = SystemClock()
    recorder.begin()
    end, due = clock.monotonic() + seconds, clock.monotonic()
    while (now := clock.monotonic()) < end:
        recorder.poll()
        if now >= due:
            recorder.sample()
            due = max(due + interval, now)
        await clock.sleep(POLL_S)
    recorder.poll()


@click.command("replay")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--speed",
    type=click.FloatRange(min=1, max=1000),
    default=1.0,
    show_default=True,
    help="Playback speed, as a multiple of real time.",
)
@click.option("-s", "--server", help="Report to this control plane instead of printing.")
@click.option("--node-id", default="replayed", show_default=True, help="Node name to use.")
@click.option(
    "--convert",
    is_flag=True,
    help="Write the recording in the current format to standard output, and exit.",
)
def replay(file: BinaryIO, speed: float, server: str | None, node_id: str, convert: bool) -> None:
    """Run an agent on a recording, and print its findings as JSON lines."""
    recording = read_recording(file)
    if convert:
        sys.stdout.buffer.writelines(write_recording(recording))
        return
    with asyncio.Runner(loop_factory=lambda: ScaledTimeLoop(speed)) as runner:
        runner.run(_replay(recording, server, NodeId(node_id)))


async def _replay(recording: Recording, server: str | None, node: NodeId) -> None:
    clock, entropy = LoopClock(recording.started), SystemEntropy()
    link: Link = open_link(server) if server else PrintingLink(clock)
    host = SimulatedHost(clock, entropy, node, boot=recording.boot_id)
    event_sources = await play(clock, entropy, recording, link, host, standard_checks(), node=node)
    for source in event_sources.sources():
        echo(
            f"{source.name}: {source.events} events in {source.lines} sightings, "
            f"{source.missed} missed",
            err=True,
        )


class PrintingLink:
    """A link that prints every unhealthy or lasting result, instead of reporting it."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    async def register(self, registration: Registration) -> Welcome:
        """Accept the machine."""
        return Welcome(
            node=registration.node or NodeId("replayed"),
            heartbeat_interval=timedelta(seconds=30),
            health_check_interval=timedelta(seconds=10),
        )

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Return no commands."""
        del node, metrics, sequence
        return ()

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Print each unhealthy or lasting result as a JSON line."""
        t = round(self._clock.monotonic() - self._began, 3)
        for result in report.results:
            if result.lasting or result.health is not Health.HEALTHY:
                line = {"t": t, "node": node, **msgspec.to_builtins(result)}
                echo(escaped(msgspec.json.encode(line).decode()))
        return None

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Do nothing."""

    async def report_evidence(self, evidence: Evidence) -> None:
        """Do nothing."""

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Do nothing."""

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
