"""The `scheduler` block: queues and plugins."""

import pytest

from navarch.app.parts import placing_config, to_scheduling
from navarch.config import ConfigError, parse_config
from navarch.config.scheduler import SchedulerConfig
from navarch.core.job import Queue
from navarch.scheduler.config import OWN_PLUGINS

POOL = "providers: {c: {type: fake}}\npools: {p: {provider: c, instance_type: x, max_nodes: 1}}\n"


def scheduler(text: str) -> SchedulerConfig:
    return parse_config(POOL + f"scheduler: {text}\n").scheduler


def names(text: str) -> list[str]:
    return [plugin.name for plugin in to_scheduling(scheduler(text)).config.plugins]


USUAL = [plugin.name for plugin in OWN_PLUGINS]


def test_jobs_are_placed_with_foresight_by_default() -> None:
    assert names("{}") == USUAL
    assert placing_config(()).plugins == OWN_PLUGINS
    assert "foresight" in USUAL


def test_a_list_of_plugins_always_wins() -> None:
    listed = "{plugins: [predicates, {name: nodeplacement, arguments: {gpu: spread}}]}"

    predicates, placement = to_scheduling(scheduler(listed)).config.plugins

    assert (predicates.name, placement.name) == ("predicates", "nodeplacement")
    assert placement.arguments == {"gpu": "spread"}


def test_more_plugins_run_before_the_default_ones_and_replace_their_namesakes() -> None:
    assert names("{more_plugins: [ageing]}") == ["ageing", *USUAL]
    rest = [name for name in USUAL if name != "minruntime"]
    assert names("{more_plugins: [minruntime]}") == ["minruntime", *rest]


def test_queues_and_bounds_reach_the_scheduler() -> None:
    found = to_scheduling(scheduler("{queues: {r: {quota: 8, limit: 16}}, seconds_per_action: 2}"))

    assert found.queues == {"r": Queue(name="r", quota=8.0, limit=16.0)}
    assert found.config.parameters.seconds_per_action == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{queues: {a: {parent: b}}}", 'unknown queue "b"'),
        ("{queues: {a: {parent: b}, b: {parent: a}}}", "is its own parent"),
        ("{plugins: [predicate]}", "no plugin is called 'predicate'"),
        ("{plugins: [ageing, ageing]}", "ageing is listed twice"),
        ("{more_plugins: [{name: ageing, arguments: {evry: 1h}}]}", "evry"),
        ("{plugins: [predicates], more_plugins: [ageing]}", "list them all under plugins"),
        ("{seconds_per_action: 0}", "seconds_per_action must be"),
    ],
)
def test_an_invalid_scheduler_block_is_refused_at_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        scheduler(text)

    assert words in str(refused.value)
    assert "line 3" in str(refused.value) or ":3" in str(refused.value)
