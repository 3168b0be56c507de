"""Autoscaling options and output."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cli_views import POOL

from navarch.cli.pools import STRATEGIES
from navarch.cli.render.pools import render_pool
from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    Day,
    PredictiveSettings,
    ScheduledSettings,
    Window,
)
from navarch.core.disruption import Cause, Disruption, DisruptionBudget
from navarch.service.specs import check_autoscaling

NIGHT = Window(days=(Day.FRIDAY,), start=22, end=6, nodes_min=1, nodes_max=2)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (STRATEGIES["reactive"], "reactive (grows above 80%, shrinks below 20%)"),
        (STRATEGIES["queue"], "queue (10 jobs/node)"),
        (STRATEGIES["cost-aware"], "cost-aware (peak 9:00 to 18:00 UTC, else 0 nodes)"),
        (
            Autoscaling(
                scheduled=ScheduledSettings(windows=(NIGHT,), fallback=STRATEGIES["queue"])
            ),
            "scheduled (UTC: friday 22:00 to 6:00, 1 to 2 nodes), else queue (10 jobs/node)",
        ),
        (
            Autoscaling(
                composite=CompositeSettings(
                    members=(STRATEGIES["queue"], Autoscaling(predictive=PredictiveSettings()))
                )
            ),
            "max of [queue (10 jobs/node), predictive (over 10 samples)]",
        ),
    ],
)
def test_pool_get_describes_the_autoscaling_strategy(strategy: Autoscaling, words: str) -> None:
    spec = replace(POOL.spec, autoscaling=strategy, cooldown=timedelta(minutes=3))
    lines = render_pool(replace(POOL, spec=spec)).splitlines()

    assert f"Autoscaling:     {words}" in lines
    assert "Cooldown:        3m" in lines
    assert "Shrinks After:   5m of low use" in lines


def test_pool_get_describes_when_and_how_fast_healthy_nodes_are_replaced() -> None:
    budget = DisruptionBudget(
        nodes_max=2,
        share_max=0.1,
        causes=(Cause.COSTLY,),
        days=(0, 6),
        hours="08:00-18:00",
        time_zone="US/Pacific",
    )
    disruption = Disruption(lifetime_max=timedelta(days=30), savings_min=0.3, budgets=(budget,))
    spec = replace(POOL.spec, spares=2, disruption=disruption)
    lines = render_pool(replace(POOL, spec=spec)).splitlines()

    assert "Spares:          2 above the size" in lines
    assert (
        "Replaced:        after 30d; when 30% can be saved; "
        "at most 2 or 10% on mon, sun at 08:00-18:00 US/Pacific (costly)"
    ) in lines


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_autoscaling_option_selects_a_registered_strategy(name: str) -> None:
    check_autoscaling(STRATEGIES[name])
