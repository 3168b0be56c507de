"""Scenario and outcome files: validate, list, create, compare, replay, import."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import yaml

from navarch.cli.errors import FAILED, CommandError
from navarch.cli.output import Output, list_all, list_all_events
from navarch.cli.printing import echo
from navarch.cli.render.sim import nodes_of, render_comparison, render_outcome, render_scenarios
from navarch.cli.session import Session
from navarch.cli.sim_run import quiet_logs, write_file
from navarch.config.errors import ConfigError
from navarch.config.kinds import name_remedy
from navarch.config.loading import load_config
from navarch.config.schema import copied
from navarch.core.duration import render_duration
from navarch.ports.api import FleetApi, Query
from navarch.service.agents import Timing
from navarch.sim.figures.figures import flatten
from navarch.sim.report import render_comparison_html, render_html
from navarch.sim.runner.outcome import Outcome, load_outcome, scenario_of
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario, parse_scenario
from navarch.sim.scenario.scenario import Scenario
from navarch.sim.trace.live import FleetTrace, trace_fleet
from navarch.sim.trace.tables import read_jobs, read_nodes

FLEET = """\
# Two machines, one of which loses a GPU. Run it: navarch sim run {name}.yaml
name: {name}
description: A GPU falls off the bus, and the node is taken out of service.

fleet:
  - {{id: node-1, provider: gcp, region: us-central1, zone: us-central1-a, gpu_count: 8}}
  - {{id: node-2, provider: gcp, region: us-central1, zone: us-central1-b, gpu_count: 8}}

events:
  - {{at: 0s, action: start_fleet}}
  - at: 30s
    action: inject_failure
    target: node-1
    params: {{failure_type: xid_error, xid_code: 79, gpu_index: 3}}
  - {{at: 30s, action: wait_for_status, target: node-1, params: {{expected_status: unhealthy}}}}

assertions:
  - {{type: node_status, target: node-2, expected: active}}
  - {{type: figure, target: detection.max_s, expected: "<= 10"}}
  - {{type: figure, target: false_cordons, expected: "== 0"}}
"""

POOL = """\
# A pool that the control plane keeps complete. Run it: navarch sim run {name}.yaml
name: {name}
description: A node of a pool breaks, and a new machine takes its place.

providers:
  cloud: {{boot_min: 1m, boot_max: 3m, price_per_hour: 23.92}}

pools:
  training: {{provider: cloud, instance_type: h100-8x, min_nodes: 4, max_nodes: 6}}

jobs:
  - {{name: pretrain, tasks: 3, gpus: 8, at: 5m, duration: 30m, checkpoint_every: 5m}}

duration: 1h

events:
  - at: 20m
    action: inject_failure
    target: training-0
    params: {{failure_type: xid_error, xid_code: 79}}

assertions:
  - {{type: node_count, target: training, expected: "4"}}
  - {{type: figure, target: replacement.max_s, expected: "<= 300"}}
  - {{type: figure, target: goodput.finished, expected: "== 1"}}
  - {{type: figure, target: leaks, expected: "== 0"}}
"""

STRESS = """\
# A hundred machines under chaos. Run it: navarch sim run {name}.yaml --seeds 100
name: {name}
description: A generated fleet, and failures at a rate that holds exactly.

stress:
  duration: 10m
  seed: 1
  fleet_gen:
    total_nodes: 100
    templates:
      - {{name: h100-8gpu, weight: 1, gpu_count: 8, gpu_type: NVIDIA H100 80GB HBM3}}
    startup: {{pattern: linear, duration: 30s}}
  chaos:
    enabled: true
    failure_rate: 20
    cascading: {{enabled: true, probability: 0.1, max_delay: 10s, scope: zone,
                max_affected_percent: 0.1}}
    recovery: {{enabled: true, probability: 0.5, mean_time: 2m}}

assertions:
  - {{type: node_count, target: all, expected: "80"}}
  - {{type: figure, target: false_cordons, expected: "== 0"}}
"""

TEMPLATES = {"fleet": FLEET, "pool": POOL, "stress": STRESS}


def validate_files(paths: Sequence[Path]) -> int:
    """Print whether each file is valid; return the exit code."""
    code = 0
    for path in paths:
        try:
            scenario = load_scenario(path)
        except ConfigError as error:
            echo(str(error), err=True)
            code = FAILED
            continue
        nodes, events = nodes_of(scenario), len(scenario.events)
        echo(
            f"{path}: {scenario.name} is valid: {nodes} nodes, {events} events, "
            f"{len(scenario.assertions)} assertions"
        )
    return code


def list_files(session: Session, folder: Path) -> None:
    """List the scenario files in a folder."""
    if not folder.is_dir():
        raise CommandError(f"{folder}: no such folder; pass one: navarch sim list FOLDER")
    files = sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")])
    found = [(path, _try(path)) for path in files]
    if session.output is Output.TABLE:
        echo(render_scenarios(found, session.canvas()))
        return
    rows = [
        {
            "file": str(path),
            "name": scenario.name if scenario else None,
            "nodes": nodes_of(scenario) if scenario else None,
            "description": scenario.description if scenario else None,
        }
        for path, scenario in found
    ]
    session.show(rows, lambda _: "")


def _try(path: Path) -> Scenario | None:
    try:
        return load_scenario(path)
    except ConfigError:
        return None


def new_file(name: str, kind: str) -> None:
    """Write a scenario from a template; never overwrite a file."""
    remedy = name_remedy(name)
    if remedy is not None:
        raise CommandError(f"{name!r} is not a name for a scenario; {remedy}")
    path = Path(f"{name}.yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATES[kind].format(name=name))
    except FileExistsError as error:
        raise CommandError(f"{path} already exists; choose another name") from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    echo(f"Wrote {path}. Run it: navarch sim run {path}")


def report_file(outcome: Path, page: Path) -> None:
    """Write the HTML report of an outcome."""
    write_file(page, render_html(load_outcome(outcome)).encode())
    echo(f"Wrote {page}")


def compare_files(
    session: Session, first: Path, second: Path, *, seed: int | None, html: Path | None
) -> None:
    """Compare two runs."""
    quiet_logs()
    one, other = _outcome(first, seed), _outcome(second, seed)
    if html is not None:
        write_file(html, render_comparison_html(one, other).encode())
    figures = {"first": flatten(one.figures), "second": flatten(other.figures)}
    session.show(figures, lambda canvas: render_comparison(one, other, canvas))


def _outcome(path: Path, seed: int | None) -> Outcome:
    if path.suffix == ".json":
        return load_outcome(path)
    return run_scenario(load_scenario(path), seed=seed)


def replay_file(session: Session, path: Path) -> int:
    """Repeat a run; return the exit code."""
    quiet_logs()
    before = load_outcome(path)
    if before.real_time:
        raise CommandError(
            f"{path}: a real-time run cannot be replayed; only virtual time is deterministic"
        )
    after = run_scenario(scenario_of(before), seed=before.seed)
    session.show(after, lambda canvas: render_outcome(after, canvas))
    if after.trace == before.trace:
        return 0 if after.passed else FAILED
    version = "" if before.version == after.version else f" (by version {before.version})"
    echo(
        f"The result differs from {path}{version}: trace {after.trace}, was {before.trace}. "
        f"Compare them: navarch sim compare {path} ...",
        err=True,
    )
    return FAILED


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
    timing = Timing() if config is None else copied(Timing, load_config(config).server)

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
    _write_scenario(scenario, trace.plain)
    lines = [f"Wrote {scenario}: {trace.plain['description']} {trace.events} events."]
    lines += [f"Left out: {count} {what}." for what, count in trace.left_out.items()]
    if config is None:
        usual = render_duration(timing.heartbeat_interval)
        lines.append(f"Assuming heartbeats every {usual}; pass --config for the real interval.")
    echo("\n".join([*lines, f"Run it: navarch sim run {scenario}"]))


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
    _write_scenario(scenario, plain)
    lines = [f"Wrote {scenario}: {plain['description']}."]
    if found is not None:
        if found.without_gpu:
            lines.append(f"Left out: {found.without_gpu} jobs without GPUs or run time.")
        if found.too_late:
            lines.append(f"Left out: {found.too_late} jobs after {render_duration(lasts)}.")
        if found.shares:
            lines.append(f"Rounded up: {found.shares} jobs that shared a GPU have one each.")
    echo("\n".join([*lines, f"Run it: navarch sim run {scenario}"]))


def _write_scenario(path: Path, plain: object) -> None:
    text = yaml.safe_dump(plain, sort_keys=False)
    parse_scenario(text, source=str(path))
    write_file(path, text.encode())
