"""Machines of a scenario that replay recordings of real ones."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from navarch.agent.recording import Recorder
from navarch.cli.main import navarch
from navarch.config.errors import ConfigError
from navarch.gpus.simulated import SimulatedGpus
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

H200 = Path(__file__).parents[4] / "shared" / "data" / "h200" / "h200_trace.jsonl"


def recorded(folder: Path, *, xid: int | None = None) -> Path:
    """Record 40 seconds of two simulated GPUs, with an XID in the middle."""
    lines: list[bytes] = []

    async def record() -> None:
        clock = SimClock()
        gpus = SimulatedGpus(clock, SeededEntropy("g"), count=2, seed="m")
        recorder = Recorder(clock, gpus, None, lines.append, boot_id="boot-7")
        recorder.begin()
        for second in range(40):
            await clock.sleep(1.0)
            if second == 20 and xid is not None:
                gpus.xid(xid, index=1)
            recorder.poll()
            recorder.sample()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(record())
    path = folder / f"machine-{xid}.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def scenario(folder: Path, *recordings: Path, **more: object) -> Path:
    plain = {
        "name": "recorded",
        "duration": "10m",
        "fleet": [
            {"id": f"m{number}", "recording": path.name} for number, path in enumerate(recordings)
        ]
        + [{"id": "beside"}],
        "events": [{"at": "1m", "action": "start_fleet"}],
        **more,
    }
    path = folder / "recorded.yaml"
    path.write_text(yaml.safe_dump(plain))
    return path


def kinds(outcome: Outcome, node: str) -> list[tuple[float, str]]:
    (history,) = [each for each in outcome.nodes if each.node == node]
    return [(entry.at_s, entry.kind) for entry in history.entries]


def test_a_recorded_fault_is_replayed_at_its_recorded_time(tmp_path: Path) -> None:
    path = scenario(tmp_path, recorded(tmp_path, xid=79), recorded(tmp_path))
    outcome = run_scenario(load_scenario(path))

    beside, broken, sound = sorted(outcome.nodes, key=lambda each: each.node)
    assert (broken.health, broken.gpus) == ("unhealthy", 2)
    assert (sound.health, beside.health) == ("healthy", "healthy")
    found = [at for at, kind in kinds(outcome, "m0") if kind == "health.finding"]
    assert found
    assert found[0] == pytest.approx(60 + 21, abs=5)
    assert run_scenario(load_scenario(path)).trace == outcome.trace, "it repeats itself"


def test_the_faults_of_user_code_on_a_real_h200_cordon_no_simulated_node(tmp_path: Path) -> None:
    if not H200.exists():
        pytest.skip(f"no {H200}")
    shutil.copy(H200, tmp_path / "h200.jsonl")
    outcome = run_scenario(load_scenario(scenario(tmp_path, tmp_path / "h200.jsonl")))

    (machine,) = [each for each in outcome.nodes if each.node == "m0"]
    assert (machine.status, machine.health, machine.gpus) == ("active", "healthy", 1)
    assert sum(kind == "health.finding" for _, kind in kinds(outcome, "m0")) >= 8
    assert outcome.figures.false_cordons == 0


def test_a_crash_of_the_control_plane_and_a_lossy_network_lose_no_finding(tmp_path: Path) -> None:
    path = scenario(
        tmp_path,
        recorded(tmp_path, xid=79),
        network={"loss": 0.3, "latency_min": "10ms", "latency_max": "2s"},
        control_plane={"crashes": [{"at": "80s", "down_for": "30s"}], "conflicts": 0.2},
    )
    for seed in range(5):
        outcome = run_scenario(load_scenario(path), seed=seed)
        (machine,) = [each for each in outcome.nodes if each.node == "m0"]
        assert machine.health == "unhealthy", seed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json\n", "line 1 is not a JSON object"),
        ('{"t": 0, "kind": "phase", "name": "x"}\n', "no GPU was recorded"),
        (None, "No such file"),
    ],
)
def test_an_invalid_recording_is_refused_with_its_place_in_the_scenario(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "bad.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message) as refused:
        load_scenario(scenario(tmp_path, file))
    assert "navarch agent record" in str(refused.value)


def test_no_failure_can_be_injected_into_a_machine_that_replays_a_recording(tmp_path: Path) -> None:
    event = {
        "at": "2m",
        "action": "inject_failure",
        "target": "m0",
        "params": {"failure_type": "temperature"},
    }
    with pytest.raises(ConfigError, match="replays a recording"):
        load_scenario(scenario(tmp_path, recorded(tmp_path), events=[event]))


def test_replaying_an_outcome_finds_the_files_next_to_its_scenario(tmp_path: Path) -> None:
    path, out = scenario(tmp_path, recorded(tmp_path, xid=79)), tmp_path / "out" / "outcome.json"
    ran = CliRunner().invoke(navarch, ["sim", "run", str(path), "--out", str(out)])
    again = CliRunner().invoke(navarch, ["sim", "replay", str(out)])

    assert (ran.exit_code, again.exit_code) == (0, 0), again.output
    assert json.loads(out.read_text())["source"] == str(path)
