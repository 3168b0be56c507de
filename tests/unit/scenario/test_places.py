"""Places in scenarios: partitions, isolations, power, racks and roll-outs."""

import pytest
from bases import Plain, changed, parsed, played

from navarch.config import ConfigError

RACKS: Plain = {
    "name": "racks",
    "duration": "90m",
    "timing": {"heartbeat_interval": "10s", "heartbeat_timeout": "30s"},
    "providers": {
        "cloud": {
            "boot_min": "60s",
            "boot_max": "90s",
            "layout": {"rack": 4, "switch": 2, "power_feed": 2, "nvlink_domain": 2},
        }
    },
    "pools": {
        "p": {"provider": "cloud", "instance_type": "box", "min_nodes": 12, "max_nodes": 16},
        "q": {"provider": "cloud", "instance_type": "box", "min_nodes": 2, "max_nodes": 3},
    },
}


def an_event(action: str, target: str, at: str = "20m", **params: object) -> Plain:
    return {"at": at, "action": action, "target": target, "params": params}


def silent(plain: Plain) -> set[str]:
    """Return the nodes that ever became unhealthy for silence."""
    return {
        node.node
        for node in played(plain, seed=5).nodes
        for entry in node.entries
        if entry.kind == "node.health" and entry.status != "active" and entry.at_s < 3600
    }


def with_events(*events: Plain) -> Plain:
    return changed(RACKS, (("events",), list(events)))


def test_agents_report_the_position_of_their_machines() -> None:
    labels = [node.labels for node in played(RACKS, seed=5).nodes]

    assert {each["rack"] for each in labels} == {f"cloud-rack-{n}" for n in range(4)}
    assert {each["switch"] for each in labels} == {"cloud-switch-0", "cloud-switch-1"}
    assert {each["power_feed"] for each in labels} == {"cloud-power-feed-0", "cloud-power-feed-1"}
    assert {each["nvlink_domain"] for each in labels} == {f"cloud-nvlink-{n}" for n in range(7)}


@pytest.mark.parametrize(
    ("scope", "target", "nodes"),
    [("pool", "q", 2), ("label", "rack=cloud-rack-1", 4), ("rack", "cloud-rack-1", 4)],
)
def test_a_partition_separates_the_machines_of_its_place(
    scope: str, target: str, nodes: int
) -> None:
    cut = {"at": "20m", "duration": "2m", "scope": scope, "target": target}

    assert len(silent(changed(RACKS, (("network",), {"partitions": [cut]})))) == nodes
    event = an_event("partition", target, scope=scope)
    heal = an_event("heal", target, at="22m", scope=scope)
    assert len(silent(with_events(event, heal))) == nodes


def test_a_machine_in_two_partitions_returns_when_both_are_over() -> None:
    cuts = [
        {"at": "20m", "duration": "2m", "scope": "pool", "target": "q"},
        {"at": "21m", "duration": "4m", "scope": "all"},
    ]
    outcome = played(changed(RACKS, (("network",), {"partitions": cuts})), seed=5)

    returns = [
        entry.at_s
        for node in outcome.nodes
        for entry in node.entries
        if entry.kind == "node.health" and entry.status == "active" and 1200 < entry.at_s < 3600
    ]
    assert returns
    assert min(returns) >= 1500


def test_an_isolated_control_plane_reaches_neither_agents_nor_providers() -> None:
    isolation = {"at": "20m", "duration": "5m"}
    scale = an_event("scale", "q", at="21m", nodes=3)
    plain = changed(with_events(scale), (("control_plane",), {"isolations": [isolation]}))
    outcome = played(plain, seed=5)

    (bought,) = [node for node in outcome.nodes if node.node == "q-2"]
    began = [entry.at_s for entry in bought.entries if entry.kind == "node.registered"]
    assert began[0] > 1500, "it was launched after the isolation"
    assert len(silent(plain)) >= 14
    assert outcome.figures.sound_destroyed == 0


def test_machines_without_power_are_broken_until_they_boot_again() -> None:
    down = an_event(
        "inject_failure",
        "cloud-rack-1",
        failure_type="power",
        scope="rack",
        duration="10m",
    )
    outcome = played(with_events(down), seed=5)

    assert outcome.failures == {"power": 4}
    assert outcome.figures.false_cordons == 0
    assert outcome.figures.recovered == 4
    assert outcome.timeline[-1].active == 14


def test_failures_of_a_place_can_occur_one_after_the_other() -> None:
    hot = an_event(
        "inject_failure", "cloud-rack-1", failure_type="temperature", scope="rack", every="5m"
    )
    outcome = played(with_events(hot), seed=5)

    at = [int(e.at_s) for n in outcome.nodes for e in n.entries if e.kind == "failure"]
    assert sorted(at) == [1200, 1500, 1800, 2100]


def test_a_roll_out_reaches_one_machine_after_the_other_and_then_new_ones() -> None:
    events = [
        an_event("roll_out", "all", scope="all", software="kernel", version="6.8", every="1m"),
        an_event("scale", "p", at="40m", nodes=13),
    ]
    bad = changed(
        with_events(*events),
        (("events", 0, "params", "failure_type"), "check"),
        (("events", 0, "params", "check"), "nfs"),
        (("events", 0, "params", "health"), "degraded"),
    )
    outcome = played(bad, seed=5)

    at = sorted(int(e.at_s) for n in outcome.nodes for e in n.entries if e.kind == "failure")
    assert at[:-1] == [1200 + 60 * n for n in range(14)]
    assert outcome.causes == {"kernel": 15}, "the machine that was bought later shows it as well"


def test_a_good_version_ends_the_failure_of_the_bad_one() -> None:
    bad = an_event(
        "roll_out",
        "q",
        scope="pool",
        software="driver",
        version="570",
        failure_type="xid_error",
        xid_code=119,
        new_machines=False,
    )
    good = an_event("roll_out", "q", at="21m", scope="pool", software="driver", version="550")
    outcome = played(with_events(bad, good), seed=5)

    assert outcome.figures.injured == 2
    assert outcome.figures.recovered >= 1
    assert outcome.figures.false_cordons == 0


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (an_event("partition", "z", scope="pool"), "pool not found: z"),
        (an_event("partition", "rack-1", scope="label"), "a label and its value"),
        (an_event("partition", "most", scope="percentage"), "must be a percentage"),
        (an_event("roll_out", "all", scope="all", software="driver"), "needs params.version"),
        (an_event("roll_out", "all", software="os", version="1"), "software must be"),
        (an_event("inject_failure", "p-0", failure_type="power", version="1"), "does not take"),
    ],
)
def test_a_place_or_software_that_does_not_exist_is_refused(event: Plain, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(with_events(event))

    (problem,) = caught.value.problems
    assert words in str(problem)
    assert problem.place is not None
    assert problem.remedy
