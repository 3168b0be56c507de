"""A damaged snapshot loads, or is rejected with an error that names the place."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler import SchedulerConfig, Snapshot, dump_snapshot, load_snapshot
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 1e300, -1e300, 10**400, float("nan"), float("inf")),
    *("", "x", "2026-01-01", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+14:00", "\ud800"),
    *([], [None], [1], [{}], {}, {"x": None}, {"x": 1}, {"type": "mig"}, {"": {}}),
)


PLACES: Final = ("cluster", "config", "now", "schema", "document")


def good() -> Any:  # noqa: ANN401
    cluster = a_cluster(
        nodes=[a_node("a", 4, labels={"zone": "x"})],
        queues=[a_queue("top"), a_queue("queue", parent="top")],
        jobs=[a_job("running", on="a"), a_job("half", request=ask(0.5)), a_job("gang", tasks=2)],
    )
    return json.loads(dump_snapshot(Snapshot(cluster=cluster, config=SchedulerConfig())))


def places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    """Yield every container of a document with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_snapshot_loads_or_is_rejected_with_a_place(seed: int) -> None:
    chance = random.Random(seed)
    whole = good()
    errors: list[str] = []
    for _ in range(40):
        document = copy.deepcopy(whole)
        container, key = chance.choice(list(places(document)))
        container[key] = copy.deepcopy(chance.choice(VALUES))
        try:
            loaded = load_snapshot(json.dumps(document))
        except InvalidError as error:
            errors.append(str(error))
        else:
            text = dump_snapshot(loaded)
            assert dump_snapshot(load_snapshot(text)) == text
    assert errors
    assert [each for each in errors if not each.startswith(PLACES)] == []
