"""Scenarios in Python: realistic failures for the extensions that you write.

```python
def test_my_autoscaler_keeps_up(scenario):
    outcome = scenario("scenarios/autoscaling.yaml").with_autoscaler("batch", Mine()).run(seed=7)
    assert outcome.figures.goodput.finished == 5
```

`scenario` is a pytest fixture that comes with Navarch; without pytest, call
`navarch.testing.scenarios.scenario`. Extensions are called as they are in production.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from navarch.app.control_plane import Opinions
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.provider import ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario, parse_scenario
from navarch.sim.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRun:
    """A scenario with your own extensions, ready to run."""

    scenario: Scenario
    opinions: Opinions = field(default_factory=Opinions)
    autoscalers: Mapping[str, Autoscaler] = field(default_factory=dict)
    metrics: MetricsSource | None = None

    def with_autoscaler(self, pool: str, autoscaler: Autoscaler) -> "ScenarioRun":
        """Return a copy in which `autoscaler` sets the size of `pool`."""
        return replace(self, autoscalers={**self.autoscalers, pool: autoscaler})

    def with_remediator(self, remediator: Remediator) -> "ScenarioRun":
        """Return a copy in which `remediator` decides about unhealthy nodes."""
        return replace(self, opinions=replace(self.opinions, remediator=remediator))

    def with_provision_scheduler(self, scheduler: ProvisionScheduler) -> "ScenarioRun":
        """Return a copy in which `scheduler` decides where machines are bought."""
        return replace(self, opinions=replace(self.opinions, provision_scheduler=scheduler))

    def with_metrics(self, metrics: MetricsSource) -> "ScenarioRun":
        """Return a copy in which `metrics` supplies the load, instead of the jobs."""
        return replace(self, metrics=metrics)

    def run(self, *, seed: int | None = None) -> Outcome:
        """Run the scenario in virtual time and return its outcome, passed or not."""
        return run_scenario(
            self.scenario,
            seed=seed,
            opinions=self.opinions,
            autoscalers=self.autoscalers,
            metrics=self.metrics,
        )

    def check(self, *, seed: int | None = None) -> Outcome:
        """Run the scenario; raise AssertionError with the reasons if an expectation fails."""
        outcome = self.run(seed=seed)
        reasons = "\n".join(f"  {verdict.what}: {verdict.reason}" for verdict in outcome.broken)
        assert outcome.passed, f"{outcome.scenario}, seed {outcome.seed}:\n{reasons}"
        return outcome


def scenario(source: str | Path | Mapping[str, object]) -> ScenarioRun:
    """Return a scenario from a file, YAML text or a mapping."""
    if isinstance(source, Mapping):
        return ScenarioRun(scenario=parse_scenario(yaml.safe_dump(dict(source), sort_keys=False)))
    if isinstance(source, Path) or "\n" not in source:
        return ScenarioRun(scenario=load_scenario(source))
    return ScenarioRun(scenario=parse_scenario(source))
