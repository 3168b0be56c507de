"""Registration of hooks, and how their results combine."""

# ruff: noqa: ANN401 - the facts of a made-up world can be anything

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler.actions import find_action
from navarch.scheduler.arguments import PluginArguments, argument
from navarch.scheduler.config import (
    DEFAULT_PLUGINS,
    HttpRequest,
    HttpResponse,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.framework.decision import Bind
from navarch.scheduler.framework.hooks import POINTS, Combine
from navarch.scheduler.framework.node_table import NodeTable
from navarch.scheduler.framework.registry import PluginRegistry
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import SCHEDULABLE
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.plugins import built_in_plugins
from navarch.scheduler.worlds import a_cluster, a_job, placed


class Registers:
    """A plugin made of one function that registers hooks."""

    def __init__(self, register: Callable[[Session], None], name: str = "mine") -> None:
        self.name = name
        self._register = register

    def on_session_open(self, session: Session) -> None:
        self._register(session)

    def on_session_close(self, session: Session) -> None:
        pass


def bare_session(**facts: Any) -> Session:
    facts.setdefault("nodes", {"a": 4, "b": 4})
    facts.setdefault("jobs", [a_job("job")])
    return open_session(a_cluster(**facts), SchedulerConfig(plugins=()))


def the_task(session: Session) -> Task:
    return session.jobs["job"].tasks["job-0"]


def test_every_extension_point_accepts_a_hook() -> None:
    session = bare_session()

    assert len(POINTS) == 29
    for name in POINTS:
        getattr(session, f"add_{name}_fn")(lambda *_: None, scope="static")
    assert set(session.registrations()) == set(POINTS)


@pytest.mark.parametrize(
    "point", [name for name, point in POINTS.items() if point.combine is Combine.EXCLUSIVE]
)
def test_a_second_hook_at_an_exclusive_point_is_rejected(point: str) -> None:
    session = bare_session()
    add = f"add_{point}_fn"
    session.add_plugin(Registers(lambda s: getattr(s, add)(lambda *_: None), "first"))

    with pytest.raises(InvalidError, match=f"'second' answers {point}, but so does 'first'"):
        session.add_plugin(Registers(lambda s: getattr(s, add)(lambda *_: None), "second"))


def test_seven_points_are_exclusive() -> None:
    assert sum(point.combine is Combine.EXCLUSIVE for point in POINTS.values()) == 7


def test_scores_add_up() -> None:
    session = bare_session()
    session.add_node_order_fn(lambda _t, n: 1.0 if n.name == "a" else 0.0)
    session.add_node_order_fn(lambda _t, n: 0.0 if n.name == "a" else 2.0)

    ranked = session.score_nodes(the_task(session), list(session.nodes.values()))

    assert [(score, node.name) for score, node in ranked] == [(2.0, "b"), (1.0, "a")]


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_a_node_without_a_score_is_dropped(nothing: float | None) -> None:
    session = bare_session()
    session.add_node_order_fn(lambda _t, n: nothing if n.name == "a" else 0.0)

    ranked = session.score_nodes(the_task(session), list(session.nodes.values()))

    assert [node.name for _, node in ranked] == ["b"]


def test_scalar_and_vectorised_scores_mix() -> None:
    session = bare_session()
    session.add_node_order_fn(lambda _t, n: 3.0 if n.name == "a" else 0.0)

    def column(_task: Task, nodes: NodeTable) -> object:
        return np.where(np.array(nodes.names) == "b", 4.0, nodes.gpu_idle)

    session.add_node_order_fn(column, vectorised=True, scope="node")

    ranked = session.score_nodes(the_task(session), list(session.nodes.values()))

    assert [(score, node.name) for score, node in ranked] == [(7.0, "a"), (4.0, "b")]


def test_gpu_scores_may_be_vectorised() -> None:
    session = bare_session()
    session.add_gpu_order_fn(
        lambda _task, _node, gpus: [float(gpu == "y") for gpu in gpus], vectorised=True
    )

    assert session.score_gpus(the_task(session), session.nodes["a"], ["x", "y"]) == ["y", "x"]


def test_only_scores_have_a_vectorised_form() -> None:
    with pytest.raises(InvalidError, match="predicate has no vectorised form"):
        bare_session().add_predicate_fn(lambda *_: None, vectorised=True)


def test_only_orders_may_be_given_as_a_key() -> None:
    with pytest.raises(InvalidError, match="predicate takes no key"):
        bare_session().add_predicate_fn(lambda *_: None, key=True)


def test_an_option_that_a_point_does_not_support_is_refused() -> None:
    with pytest.raises(InvalidError, match="job_order takes no option 'vector'"):
        bare_session().add_job_order_fn(lambda _l, _r: 0, vector=lambda *_: None)


def test_an_unknown_scope_is_rejected() -> None:
    with pytest.raises(InvalidError, match="scope 'cluster'"):
        bare_session().add_predicate_fn(lambda *_: None, scope="cluster")  # type: ignore[arg-type]


def test_the_first_order_with_a_difference_decides() -> None:
    session = bare_session(jobs=[a_job("job"), a_job("x"), a_job("y", age=5)])
    session.add_job_order_fn(lambda _l, _r: 0)
    session.add_job_order_fn(lambda left, right: -1 if left.name > right.name else 1)

    assert session.compare_jobs(session.jobs["y"], session.jobs["x"]) < 0


def test_an_order_may_be_given_as_a_key() -> None:
    session = bare_session(jobs=[a_job("job"), a_job("x", priority=1), a_job("y", priority=2)])
    session.add_job_order_fn(lambda job: -job.priority, key=True)

    assert session.compare_jobs(session.jobs["y"], session.jobs["x"]) < 0
    assert session.compare_jobs(session.jobs["x"], session.jobs["y"]) > 0


def test_without_orders_age_decides_and_then_the_name() -> None:
    session = bare_session(jobs=[a_job("job"), a_job("x"), a_job("y", age=5), a_job("z", age=5)])
    x, y, z = (session.jobs[name] for name in "xyz")

    assert session.compare_jobs(y, x) < 0
    assert session.compare_jobs(y, z) < 0


def test_the_first_objection_decides_and_names_its_plugin() -> None:
    session = bare_session()
    session.add_plugin(Registers(lambda s: s.add_predicate_fn(lambda *_: None), "yes"))
    session.add_plugin(Registers(lambda s: s.add_predicate_fn(lambda *_: "no way"), "no"))
    task = the_task(session)

    refusal = session.predicate(task, task.job, session.nodes["a"])

    assert refusal is not None
    assert (refusal.plugin, refusal.reason, refusal.node) == ("no", "no way", "a")


def test_subsets_are_chained() -> None:
    session = bare_session(nodes={"a": 4, "b": 4, "c": 4})
    session.add_subset_nodes_fn(lambda _j, _g, _p, _t, nodes: [nodes[:2], nodes[2:]])
    session.add_subset_nodes_fn(lambda _j, _g, _p, _t, nodes: [[node] for node in nodes])
    job = session.jobs["job"]

    sets = session.subset_nodes(job, job.root, [], [], list(session.nodes.values()))

    assert [[node.name for node in nodes] for nodes in sets] == [["a"], ["b"], ["c"]]  # type: ignore[union-attr]


def test_annotations_are_merged_and_the_later_plugin_wins() -> None:
    def annotate(**pairs: str) -> Callable[[Task, str], Mapping[str, str]]:
        return lambda _task, _node: pairs

    session = bare_session()
    session.add_bind_request_mutate_fn(annotate(x="1", y="1"))
    session.add_bind_request_mutate_fn(annotate(y="2"))
    find_action("allocate")(session)

    (bind,) = [d for d in session.sink.decisions if isinstance(d, Bind)]  # type: ignore[attr-defined]
    assert bind.annotations == {"x": "1", "y": "2"}


def test_all_filters_and_validators_must_accept() -> None:
    session = bare_session()
    job = session.jobs["job"]
    scenario = Scenario(preemptor=job, victims={})
    for kind in ("reclaim", "preempt"):
        assert getattr(session, f"{kind}_victim_filter")(job, job)
        assert getattr(session, f"{kind}_scenario_validator")(scenario)
        for answer in (True, False):
            fixed = [answer]
            getattr(session, f"add_{kind}_victim_filter_fn")(lambda *_, a=fixed: a[0])
            getattr(session, f"add_{kind}_scenario_validator_fn")(lambda *_, a=fixed: a[0])
        assert not getattr(session, f"{kind}_victim_filter")(job, job)
        assert not getattr(session, f"{kind}_scenario_validator")(scenario)


def test_without_hooks_capacity_is_unlimited_and_nothing_is_reclaimed() -> None:
    session = bare_session()
    job = session.jobs["job"]

    assert session.is_job_over_capacity(job, []) == SCHEDULABLE
    assert session.can_reclaim_resources(job) is False
    assert session.get_queue_fair_share(session.queues.by_name["queue"]) is None


def test_pages_are_served_and_a_second_one_at_the_same_path_is_rejected() -> None:
    session = bare_session()
    session.add_http_handler("/x", lambda request: HttpResponse(body=request.path.encode()))

    assert session.http_handlers["/x"](HttpRequest(path="/x")).body == b"/x"
    with pytest.raises(InvalidError, match="/x"):
        session.add_http_handler("/x", lambda _: HttpResponse(body=b""))


def test_plugins_are_opened_in_order_and_all_closed() -> None:
    calls: list[str] = []

    class Notes:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_session_open(self, _session: Session) -> None:
            calls.append(f"open {self.name}")

        def on_session_close(self, _session: Session) -> None:
            calls.append(f"close {self.name}")

    registry = PluginRegistry()
    registry.register("x", lambda: Notes("x"))
    registry.register("y", lambda: Notes("y"))
    plugins = (PluginConfig(name="y"), PluginConfig(name="x"))

    run_cycle(a_cluster(nodes={}), SchedulerConfig(plugins=plugins), registry=registry)

    assert calls == ["open y", "open x", "close y", "close x"]


def test_a_plugin_is_listed_once() -> None:
    plugins = (PluginConfig(name="priority"), PluginConfig(name="priority"))

    with pytest.raises(InvalidError, match="'priority' is listed twice"):
        open_session(a_cluster(nodes={}), SchedulerConfig(plugins=plugins))


def test_an_unknown_plugin_is_rejected() -> None:
    with pytest.raises(InvalidError, match="no plugin is called 'proporton'"):
        open_session(
            a_cluster(nodes={}), SchedulerConfig(plugins=(PluginConfig(name="proporton"),))
        )


def test_an_unknown_action_is_rejected_before_any_action_runs() -> None:
    with pytest.raises(InvalidError, match="no action is called 'alocate'"):
        run_cycle(a_cluster(nodes={}), SchedulerConfig(actions=("allocate", "alocate")))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("proportion", {"kvalue": "1"}, "no argument 'kvalue'; it has: kValue"),
        ("proportion", {"kValue": "much"}, "'much' is not a finite number"),
        ("proportion", {"kValue": "nan"}, "'nan' is not a finite number"),
        ("nodeplacement", {"gpu": "pack"}, "'pack' is not one of 'binpack', 'spread'"),
        ("minruntime", {"defaultPreemptMinRuntime": "soon"}, "not a duration"),
        ("dynamicresources", {"maxCelCacheEntries": "1.5"}, "'1.5' is not a whole number"),
        ("priority", {"anything": "1"}, "it has: none"),
    ],
)
def test_arguments_are_checked(name: str, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        built_in_plugins().build(name, arguments)


def test_arguments_have_types_and_defaults() -> None:
    registry = built_in_plugins()

    plugin: Any = registry.build("minruntime", {"defaultPreemptMinRuntime": "1w2d3h"})
    assert plugin.default_preempt.total_seconds() == ((7 + 2) * 24 + 3) * 3600
    assert plugin.default_reclaim.total_seconds() == 0
    low: Any = registry.build(
        "proportion", {"kValue": "-3", "relcaimerSaturationMultiplier": "0.2"}
    )
    assert (low.k_value, low.saturation_multiplier) == (0.0, 1.0)


def test_a_builder_may_be_a_function_with_arguments_of_its_own() -> None:
    @dataclass(frozen=True)
    class Settings:
        weight: float = field(default=1.0, metadata=argument("weight"))

    seen: list[float] = []

    def build(settings: Settings) -> Registers:
        seen.append(settings.weight)
        return Registers(lambda _: None)

    registry = PluginRegistry()
    registry.register("mine", build, arguments=Settings)
    registry.build("mine", {"weight": "2.5"})

    assert seen == [2.5]
    with pytest.raises(InvalidError, match="two plugins are called 'mine'"):
        registry.register("mine", build)


def test_a_builder_may_read_its_arguments_one_by_one() -> None:
    seen: list[object] = []

    def build(arguments: PluginArguments) -> Registers:
        seen.append(arguments.get_float("weight", 1.0))
        seen.append(arguments.get_duration("pause", timedelta(seconds=5)))
        seen.append(arguments.get_bool("loud", False))
        return Registers(lambda _: None)

    registry = PluginRegistry()
    registry.register("mine", build)
    registry.build("mine", {"weight": "2.5", "loud": "true"})

    assert seen == [2.5, timedelta(seconds=5), True]
    with pytest.raises(InvalidError, match="no argument 'wieght'"):
        registry.build("mine", {"wieght": "2.5"})
    with pytest.raises(InvalidError, match="argument 'weight'"):
        registry.build("mine", {"weight": "heavy"})


def test_a_session_records_which_plugins_registered_at_each_point() -> None:
    session = open_session(a_cluster(nodes={}), SchedulerConfig(plugins=DEFAULT_PLUGINS))

    answered = session.registrations()

    assert answered["job_order"] == ["priority", "elastic"]
    assert answered["task_order"] == ["kubeflow", "ray", "taskorder"]
    assert answered["is_job_over_capacity"] == ["proportion"]


def test_a_custom_plugin_takes_part() -> None:
    class OnlyB:
        name: ClassVar[str] = "only-b"

        def on_session_open(self, session: Session) -> None:
            session.add_predicate_fn(
                lambda _task, _job, node: None if node.name == "b" else "not b", scope="static"
            )

        def on_session_close(self, session: Session) -> None:
            pass

    registry = built_in_plugins()
    registry.register("only-b", OnlyB)
    config = SchedulerConfig(plugins=(*DEFAULT_PLUGINS, PluginConfig(name="only-b")))

    result = run_cycle(
        a_cluster(nodes={"a": 1, "b": 1}, jobs=[a_job("job")]), config, registry=registry
    )

    assert placed(result) == {"job-0": "b"}


def test_nodes_offer_figures_to_plugins() -> None:
    session = bare_session(jobs=[a_job("job"), a_job("held", gpus=1, on="a")])
    node: Node = session.nodes["a"]

    assert node.gpu_utilization() == 0.25
    assert node.has_available_gpus()
    assert the_task(session).requires_gpu
