"""Laws that hold for every scenario run."""

from datetime import timedelta
from fractions import Fraction

import pytest
from bases import FLEET, POOL, STRESS, Plain, changed, played
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.app import controllers
from navarch.control import retention
from navarch.core.retention import Retention
from navarch.sim.kernel.clock import Chance, SeededEntropy, proportions
from navarch.sim.runner.generation import (
    cold_start_s,
    failure_moments,
    failures_within,
    generate_fleet,
    start_moments,
)
from navarch.sim.scenario.assertion import AssertionType
from navarch.sim.scenario.fleet import FleetGen, NodeTemplate, Startup, StartupPattern

WEIGHTS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.decimals(min_value="0.01", max_value=1000, places=2).map(float),
    min_size=1,
)


@given(
    rate=st.decimals(min_value=0, max_value=10_000, places=3).map(float),
    nodes=st.integers(1, 10_000),
    minutes=st.integers(1, 120),
    seed=st.integers(0, 1000),
)
@settings(max_examples=200, deadline=None)
def test_the_failure_rate_is_exact(rate: float, nodes: int, minutes: int, seed: int) -> None:
    duration = timedelta(minutes=minutes)
    wanted = Fraction(str(rate)) * nodes * minutes / 1000
    assert failures_within(duration, rate=rate, nodes=nodes) == int(wanted)
    if wanted > 2000:
        return

    moments = failure_moments(
        duration, rate=rate, nodes=nodes, chance=Chance(SeededEntropy(str(seed)))
    )

    assert len(moments) == int(wanted)
    assert moments == sorted(moments)
    assert all(0 <= moment <= duration.total_seconds() for moment in moments)
    for number, moment in enumerate(moments):
        # At every moment, the number of failures is within one of the expected number.
        assert abs(moment * rate * nodes / 60_000 - number) <= 1.000001


@given(count=st.integers(0, 5000), weights=WEIGHTS)
def test_each_proportion_is_met_to_within_one(count: int, weights: dict[str, float]) -> None:
    found = proportions(count, weights)

    assert sum(found.values()) == count
    total = sum(map(Fraction, map(str, weights.values())))
    for name, many in found.items():
        assert abs(many - count * Fraction(str(weights[name])) / total) < 1


@given(weights=WEIGHTS, total=st.integers(1, 300), seed=st.integers(0, 99))
def test_a_generated_fleet_has_the_specified_proportions(
    weights: dict[str, float], total: int, seed: int
) -> None:
    plan = FleetGen(
        total_nodes=total,
        templates=tuple(NodeTemplate(name=n, weight=w, gpu_count=8) for n, w in weights.items()),
    )

    fleet = generate_fleet(plan, Chance(SeededEntropy(str(seed))))

    kinds = [node.labels["template"] for node in fleet]
    assert {n: kinds.count(n) for n in weights} == proportions(total, weights)
    assert len({node.id for node in fleet}) == total
    assert all(node.zone.startswith(node.region) for node in fleet)


@given(
    pattern=st.sampled_from(StartupPattern), count=st.integers(1, 500), jitter=st.integers(0, 100)
)
def test_every_machine_starts_once_close_to_its_scheduled_time(
    pattern: StartupPattern, count: int, jitter: int
) -> None:
    startup = Startup(pattern=pattern, duration=timedelta(seconds=60), jitter_percent=jitter)

    moments = start_moments(startup, count, Chance(SeededEntropy("s")))

    assert len(moments) == count
    assert all(0 <= moment <= 120 for moment in moments)
    if pattern is StartupPattern.INSTANT:
        assert set(moments) == {0.0}


def test_cold_starts_stay_within_their_bounds() -> None:
    startup = Startup(
        cold_start_mean=timedelta(seconds=40),
        cold_start_stddev=timedelta(seconds=30),
        cold_start_min=timedelta(seconds=20),
        cold_start_max=timedelta(seconds=50),
    )
    chance = Chance(SeededEntropy("c"))

    drawn = [cold_start_s(startup, chance) for _ in range(500)]

    assert min(drawn) == 20
    assert max(drawn) == 50
    assert len(set(drawn)) > 100


@pytest.mark.parametrize("base", [FLEET, STRESS, POOL], ids=["fleet", "stress", "pool"])
def test_the_same_seed_repeats_the_run_exactly(base: Plain) -> None:
    assert played(base, seed=5) == played(base, seed=5)


def test_another_seed_gives_another_run() -> None:
    assert played(STRESS, seed=5).trace != played(STRESS, seed=6).trace


@pytest.mark.parametrize("base", [FLEET, STRESS, POOL], ids=["fleet", "stress", "pool"])
def test_the_history_of_a_node_ends_with_the_state_in_the_store(base: Plain) -> None:
    for history in played(base, seed=5).nodes:
        events = [entry for entry in history.entries if entry.kind not in ("failure", "mended")]
        assert events[-1].status == history.status, history


@pytest.mark.parametrize("seed", range(5))
def test_chaos_does_not_fail_a_failed_node_again(seed: int) -> None:
    fierce = changed(
        STRESS,
        (("stress", "chaos", "failure_rate"), 400),
        (("stress", "chaos", "correlated_failures"), []),
        (("stress", "chaos", "recovery"), {}),
    )
    outcome = played(fierce, seed=seed)
    hurt: set[str] = set()

    for history in outcome.nodes:
        down = False
        for entry in history.entries:
            if entry.kind == "failure" and "(event)" not in entry.text:
                assert not down, history
                down = "XID 94" in entry.text or entry.text.startswith(("temperature", "XID"))
                hurt.add(history.node)
            if entry.kind == "mended":
                down = False
    assert outcome.skipped + outcome.causes["chaos"] == 19
    assert hurt


CALM_FLEET = changed(
    FLEET,
    (("events",), [{"at": "0s", "action": "start_fleet"}]),
    (("network",), {}),
    (("control_plane",), {}),
)


@pytest.mark.parametrize(
    ("kind", "target", "holds", "fails", "found"),
    [
        ("node_status", "n3", "active", "cordoned", "it is active"),
        ("node_status", "n9", None, "active", "node not found: n9"),
        ("health_status", "n3", "healthy", "unhealthy", "it is healthy"),
        ("node_count", "all", "3", "4", "3 are"),
        ("node_count", "r1-a", "2", "3", "2 are"),
        ("node_count", "gcp", "0", "3", "2 are"),
        ("figure", "injured", "== 0", "== 1", "it is 0"),
        ("figure", "availability", "> 0.5", "> 2", "it is 1"),
        ("figure", "detection.max_s", None, "<= 1000", "there was nothing to measure"),
        ("event", "node.registered", "== 3", "< 3", "there are 3"),
        ("event", "node.registered: no such words", "== 0", ">= 1", "there are 0"),
    ],
)
def test_every_type_of_assertion_can_pass_and_fail(
    kind: str, target: str, holds: str | None, fails: str, found: str
) -> None:
    for expected, good in ((holds, True), (fails, False)):
        if expected is None:
            continue
        assertion = {"type": kind, "target": target, "expected": expected}
        named = [*CALM_FLEET["fleet"], {"id": "n9", "after": "10m"}]
        outcome = played(changed(CALM_FLEET, (("assertions", 0), assertion), (("fleet",), named)))

        (verdict,) = outcome.verdicts
        assert verdict.holds is good, verdict
        assert outcome.passed is good
        assert verdict.reason.startswith(found)


@pytest.mark.parametrize(
    ("window", "found"),
    [
        ({"before": "8m"}, 2),
        ({"after": "8m"}, 1),
        ({"after": "1m", "before": "8m"}, 0),
        ({}, 3),
    ],
)
def test_an_assertion_counts_the_events_between_two_times(
    window: dict[str, str], found: int
) -> None:
    names = [*CALM_FLEET["fleet"][:2], {**CALM_FLEET["fleet"][2], "after": "10m"}]
    assertion = {"type": "event", "target": "node.registered", "expected": f"== {found}", **window}
    assertions = (("assertions",), [assertion])

    (verdict,) = played(
        changed(CALM_FLEET, (("fleet",), names), assertions, (("duration",), "15m"))
    ).verdicts

    assert verdict.holds, verdict


def test_every_type_of_assertion_is_tested() -> None:
    (mark,) = test_every_type_of_assertion_can_pass_and_fail.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in mark.args[1]} == set(AssertionType)


def test_a_failed_assert_event_fails_the_run_even_if_it_ends_well() -> None:
    start, early = CALM_FLEET["events"][0], {"at": "20s", "action": "assert", "target": "n3"}
    params = {"expected_status": "draining"}
    outcome = played(changed(CALM_FLEET, (("events",), [start, {**early, "params": params}])))

    assert [verdict.holds for verdict in outcome.verdicts] == [False, True]
    assert not outcome.passed


def test_a_cordon_by_an_operator_is_not_a_false_cordon() -> None:
    orders = [
        {
            "at": at,
            "action": "issue_command",
            "target": "n3",
            "params": {"command_type": kind},
        }
        for at, kind in (("10s", "cordon"), ("20s", "uncordon"), ("30s", "drain"))
    ]
    silent = {"at": "30s", "action": "partition", "target": "n1"}
    outcome = played(
        changed(
            CALM_FLEET,
            (("events",), [*CALM_FLEET["events"], *orders, silent]),
            (("assertions",), []),
        )
    )

    assert outcome.figures.false_cordons == 1, "only the one that could not report"


def test_figures_cover_the_whole_run_although_the_journal_is_pruned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controllers, "RETENTION", Retention(events=timedelta(hours=3)))
    monkeypatch.setattr(retention, "LEAST", timedelta(0))
    broken = {
        "at": "10m",
        "action": "inject_failure",
        "target": "p-0",
        "params": {"failure_type": "xid_error", "xid_code": 79},
    }
    outcome = played(
        {
            "name": "long",
            "duration": "30h",
            "timing": {"heartbeat_interval": "1m", "health_check_interval": "5m"},
            "fleet": [{"id": "n1"}],
            "providers": {"cloud": {"boot_min": "1m", "boot_max": "2m"}},
            "pools": {
                "p": {"provider": "cloud", "instance_type": "box", "min_nodes": 2, "max_nodes": 2}
            },
            "events": [{"at": "0s", "action": "start_fleet"}, broken],
            "assertions": [
                {"type": "event", "target": "node.registered", "expected": "== 4"},
                {"type": "figure", "target": "replacement.count", "expected": "== 1"},
                {"type": "figure", "target": "availability", "expected": "> 0.99"},
            ],
        }
    )

    assert outcome.passed, outcome.broken
    (gone,) = [history for history in outcome.nodes if history.node == "p-0"]
    assert gone.status == "terminated"
    assert [entry.kind for entry in gone.entries][:2] == ["node.requested", "node.bought"]


def test_a_wait_that_times_out_fails_the_run_and_states_the_status_found() -> None:
    outcome = played(changed(FLEET, (("network",), {})))

    assert not outcome.passed
    assert "timeout waiting for node n2 to reach status unhealthy; it is cordoned" in (
        outcome.broken[0].reason
    )
