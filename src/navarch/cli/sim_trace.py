"""Create scenarios from live fleets and from published traces."""

from datetime import timedelta
from pathlib import Path

import click
import yaml

from navarch.cli.errors import CommandError
from navarch.cli.pagination import list_all, list_all_events
from navarch.cli.session import Session
from navarch.cli.sim_run import write_file
from navarch.config.loading import load_config
from navarch.core.duration import render_duration
from navarch.ports.api import FleetApi, Query
from navarch.service.agents import Timing
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.trace.live import FleetTrace, trace_fleet
from navarch.sim.trace.tables import read_jobs, read_nodes


def record_fleet(
    session: Session,
    scenario: Path,
    *,
    since: timedelta | None,
    prices: bool,
    config: Path | None,
) -> None:
    """Write a scenario with the history of the fleet."""
    if scenario.exists():
        raise CommandError(f"{scenario} already exists; choose another name")
    now = session.clock.now()
    timing = _timing(config) if config is not None else Timing()

    async def fetch(api: FleetApi) -> FleetTrace:
        return trace_fleet(
            await api.list_pools(),
            await list_all(api.list_nodes, Query(include_gone=True, order_by="created")),
            await list_all_events(api),
            name=scenario.stem,
            since=None if since is None else now - since,
            until=now,
            timing=timing,
            prices=prices,
        )

    trace = session.call_without_timeout(fetch)
    text = yaml.safe_dump(trace.plain, sort_keys=False)
    parse_scenario(text, source=str(scenario))
    write_file(scenario, text.encode())
    lines = [f"Wrote {scenario}: {trace.plain['description']} {trace.events} events."]
    lines += [f"Left out: {count} {what}." for what, count in trace.left_out.items()]
    if config is None:
        usual = render_duration(timing.heartbeat_interval)
        lines.append(f"Assuming heartbeats every {usual}; pass --config for the real interval.")
    click.echo("\n".join([*lines, f"Run it: navarch sim run {scenario}"]))


def _timing(config: Path) -> Timing:
    """Return the heartbeat and check intervals of a server's configuration."""
    server = load_config(config).server
    return Timing(
        heartbeat_interval=server.heartbeat_interval,
        heartbeat_timeout=server.heartbeat_timeout,
        health_check_interval=server.health_check_interval,
    )


def import_tables(scenario: Path, *, nodes: Path, jobs: Path | None, lasts: timedelta) -> None:
    """Write a scenario with the machines and jobs of two CSV files."""
    if scenario.exists():
        raise CommandError(f"{scenario} already exists; choose another name")
    fleet = read_nodes(nodes)
    found = read_jobs(jobs, until=lasts) if jobs is not None else None
    plain: dict[str, object] = {
        "name": scenario.stem,
        "description": f"{len(fleet)} machines of {nodes.name}"
        + (f" and {len(found.plain)} jobs of {jobs.name}" if jobs and found else ""),
        "duration": render_duration(lasts),
        "fleet": fleet,
        "events": [{"at": "0s", "action": "start_fleet"}],
    }
    if found is not None:
        plain["jobs"] = list(found.plain)
    text = yaml.safe_dump(plain, sort_keys=False)
    parse_scenario(text, source=str(scenario))
    write_file(scenario, text.encode())
    lines = [f"Wrote {scenario}: {plain['description']}."]
    if found is not None:
        if found.without_gpu:
            lines.append(f"Left out: {found.without_gpu} jobs without GPUs or run time.")
        if found.too_late:
            lines.append(f"Left out: {found.too_late} jobs after {render_duration(lasts)}.")
        if found.shares:
            lines.append(f"Rounded up: {found.shares} jobs that shared a GPU have one each.")
    click.echo("\n".join([*lines, f"Run it: navarch sim run {scenario}"]))
