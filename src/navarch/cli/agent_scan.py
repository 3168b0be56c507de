"""`navarch agent scan`: run every check once on this machine, without a control plane."""

import click

from navarch.agent.event_sources import EventSources
from navarch.agent.recording import scan_machine
from navarch.cli.agent import setting
from navarch.cli.commands import Command
from navarch.cli.render.nodes import render_scan
from navarch.cli.session import Session, with_session
from navarch.clock import SystemClock, SystemEntropy
from navarch.gpus.child import NvmlChild
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import choose_active, standard_checks
from navarch.health.conditions import find_kind
from navarch.hosts.kmsg import MemoryBookmark, open_kmsg
from navarch.hosts.linux import LinuxHost
from navarch.ports.gpu import GpuReader

READINGS = 100
"""Reads of two thousand records each: more than any kernel log holds."""
UNHEALTHY = 1
"""Exit code for a machine that should not be used."""


@click.command("scan", cls=Command)
@setting("--provider", default="", help="Provider of the machine.")
@setting(
    "--instance-type",
    default="",
    help="Instance type, to compare the machine with the catalogue.",
)
@setting(
    "--gpus-expected",
    type=click.IntRange(min=0),
    help="Number of GPUs that the machine must have.",
)
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar="NAME",
    help="Also test the GPUs, which must be idle: burn, patterns, bandwidth, dcgm, nccl or all."
    " Repeatable.",
)
@click.option("--simulated-gpus", type=click.IntRange(min=0, max=64), hidden=True)
@with_session
def scan(
    session: Session,
    provider: str,
    instance_type: str,
    gpus_expected: int | None,
    tests: tuple[str, ...],
    simulated_gpus: int | None,
) -> int:
    """Check this machine once and report what is wrong with it.

    No control plane is needed. The exit code is 1 if the machine should not be used.
    """
    checks = (*standard_checks(), *choose_active(tests))
    gpus = _event_sources(simulated_gpus)
    try:
        found = scan_machine(
            session.clock,
            gpus,
            LinuxHost(),
            checks,
            gpus_expected=gpus_expected,
            kind=find_kind(provider, instance_type) if instance_type else None,
            diagnostics=None if simulated_gpus is not None else CudaDiagnostics(),
            sources=gpus.sources,
        )
    finally:
        gpus.close()
    session.show(found, lambda canvas: render_scan(found, canvas))
    return 0 if found.passed else UNHEALTHY


def _event_sources(simulated: int | None) -> EventSources:
    """Return the GPUs with every kernel log record about them since boot.

    The tracepoint is left out: it holds no earlier events, and an agent may be reading it.
    """
    clock = SystemClock()
    gpus: GpuReader
    if simulated is not None:
        gpus, kernel_log = SimulatedGpus(clock, SystemEntropy(), count=simulated, seed="scan"), None
    else:
        gpus, kernel_log = NvmlChild(clock), open_kmsg(clock)
    logs = [] if kernel_log is None else [kernel_log]
    event_sources = EventSources(clock, gpus, logs, bookmark=MemoryBookmark(), boot_id="")
    for _ in range(READINGS):
        event_sources.poll_kernel_logs()
    return event_sources
