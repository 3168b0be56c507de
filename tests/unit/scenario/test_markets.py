"""Markets in scenarios: strategies, prices, quotas, spot reclaims, outages of the API."""

import pytest
from bases import Plain, changed, played

TWO_CLOUDS: Plain = {
    "name": "two clouds",
    "duration": "30m",
    "providers": {"dear": {"price_per_hour": 40}, "cheap": {"price_per_hour": 10}},
    "pools": {
        "p": {
            "providers": [{"name": "dear", "priority": 1}, {"name": "cheap", "priority": 2}],
            "instance_type": "box",
            "min_nodes": 4,
            "max_nodes": 4,
        }
    },
}


def bought(plain: Plain, *, seed: int = 7) -> dict[str, int]:
    """Return how many nodes of a run were bought from each provider."""
    found: dict[str, int] = {}
    for node in played(plain, seed=seed).nodes:
        found[node.provider] = found.get(node.provider, 0) + 1
    return found


@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [
        ("priority", {"dear": 4}),
        ("cost", {"cheap": 4}),
        ("round-robin", {"dear": 2, "cheap": 2}),
    ],
)
def test_the_strategy_of_a_pool_chooses_its_provider(strategy: str, nodes: dict[str, int]) -> None:
    assert bought(changed(TWO_CLOUDS, (("pools", "p", "strategy"), strategy))) == nodes


SPOT: Plain = {
    "name": "spot",
    "duration": "2h",
    "providers": {
        "cloud": {
            "price_per_hour": 40,
            "spot_prices": {"box": 12},
            "capacity": [
                {"at": "0s", "instance_type": "box spot", "machines": 4},
                {"at": "1h", "instance_type": "box spot", "machines": 1, "reclaim": True},
            ],
        }
    },
    "pools": {
        "p": {
            "provider": "cloud",
            "capacity_types": ["spot", "on-demand"],
            "instance_type": "box",
            "min_nodes": 4,
            "max_nodes": 4,
        }
    },
}


def test_spot_capacity_is_reclaimed_and_on_demand_machines_fill_the_gap() -> None:
    outcome = played(SPOT, seed=7)

    gone = [node for node in outcome.nodes if node.status == "terminated"]
    assert len(gone) == 3
    assert outcome.figures.false_cordons == 0
    assert outcome.timeline[-1].active == 4


def test_spot_machines_cost_their_spot_price() -> None:
    alone = changed(SPOT, (("providers", "cloud", "capacity"), []))

    assert played(alone).figures.money.billed == pytest.approx(4 * 12 * 2, rel=0.02)


def test_spot_machines_are_reclaimed_at_the_rate_and_after_the_notice() -> None:
    rule = {"at": "30m", "duration": "1h", "rate": 2.0, "notice": "2m"}
    plain = changed(
        SPOT,
        (("providers", "cloud", "capacity"), []),
        (("providers", "cloud", "spot_reclaims"), [rule]),
    )
    outcome = played(plain, seed=7)

    told = [
        (entry.at_s, entry.text)
        for node in outcome.nodes
        for entry in node.entries
        if entry.kind == "node.retiring" and "reclaim" in entry.text
    ]
    assert told, "the control plane receives the notice and moves the work in time"
    assert all(1800 <= at_s <= 5400 + 120 for at_s, _ in told)
    assert outcome.figures.false_cordons == 0
    assert outcome.timeline[-1].active == 4
    elsewhere = changed(plain, (("providers", "cloud", "spot_reclaims", 0, "zone"), "other"))
    assert len(played(elsewhere, seed=7).nodes) == 4


def test_a_price_change_moves_purchases_to_the_cheaper_cloud() -> None:
    plain = changed(
        TWO_CLOUDS,
        (("pools", "p", "strategy"), "cost"),
        (("pools", "p", "max_nodes"), 6),
        (
            ("providers", "cheap", "price_changes"),
            [{"at": "10m", "instance_type": "box", "price_per_hour": 90}],
        ),
        (("events",), [{"at": "15m", "action": "scale", "target": "p", "params": {"nodes": 6}}]),
    )

    assert bought(plain) == {"cheap": 4, "dear": 2}


def test_a_quota_limits_the_machines_of_an_account() -> None:
    plain = changed(
        TWO_CLOUDS,
        (("providers", "dear", "quotas"), [{"at": "0s", "instance_type": "box", "machines": 1}]),
    )

    assert bought(plain) == {"dear": 1, "cheap": 3}


@pytest.mark.parametrize("failure", ["fail", "time_out", "hang"])
def test_no_machine_is_launched_while_the_api_is_out(failure: str) -> None:
    alone = changed(
        TWO_CLOUDS,
        (("pools", "p", "providers"), None),
        (("pools", "p", "provider"), "dear"),
        (("duration",), "2h"),
        (
            ("providers", "dear", "api_outages"),
            [{"at": "0s", "duration": "20m", "failure": failure}],
        ),
    )
    outcome = played(alone)

    early = [moment for moment in outcome.timeline if moment.at_s < 600 and moment.total]
    assert not early
    assert outcome.timeline[-1].active == 4
    assert outcome.figures.leaks == 0


def test_an_outage_of_one_zone_leaves_the_others_alone() -> None:
    zoned = changed(
        TWO_CLOUDS,
        (("pools", "p", "providers"), None),
        (("pools", "p", "provider"), "dear"),
        (("pools", "p", "region"), "r"),
        (("pools", "p", "zones"), ["r-a", "r-b"]),
        (
            ("providers", "dear", "api_outages"),
            [{"at": "0s", "duration": "30m", "zone": "r-a"}],
        ),
    )

    assert {node.zone for node in played(zoned).nodes if node.status == "active"} == {"r-b"}


def test_a_spending_budget_stops_purchases() -> None:
    budget = {"of": "fleet", "limit_per_month": 50, "when_spent": "refuse"}
    outcome = played(changed(TWO_CLOUDS, (("budgets",), [budget])))

    assert outcome.timeline[-1].active < 4


def test_the_governor_of_a_scenario_limits_automation() -> None:
    broken = [
        {
            "at": f"{10 + n}m",
            "action": "inject_failure",
            "target": f"p-{n}",
            "params": {"failure_type": "xid_error", "xid_code": 79},
        }
        for n in range(4)
    ]
    plain = changed(TWO_CLOUDS, (("events",), broken), (("duration",), "1h"))
    narrow = changed(plain, (("governor",), {"pool": {"nodes": 1, "share": 0}}))
    wide = changed(
        plain, (("governor",), {name: {"nodes": 6} for name in ("pool", "zone", "fleet")})
    )

    assert len(played(narrow).nodes) < len(played(wide).nodes) == 8
