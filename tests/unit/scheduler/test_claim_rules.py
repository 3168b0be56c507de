"""Tasks that claim devices."""

# ruff: noqa: ANN401 - the facts of a made-up world can be anything

from typing import Any

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.framework.decision import Bind
from navarch.scheduler.model.cluster import (
    ClaimUse,
    Device,
    JobSpec,
    ResourceClaim,
    ResourceSlice,
)
from navarch.scheduler.worlds import (
    a_cluster,
    a_job,
    a_node,
    a_queue,
    ask,
    placed,
    promised,
    stopped,
)


def a_slice(node: str, devices: int) -> ResourceSlice:
    names = tuple(str(i) for i in range(devices))
    return ResourceSlice(
        name=node, node=node, device_class="gpu", driver="d", pool=node, devices=names
    )


def a_claim(name: str, count: int = 1, queue: str | None = "queue", **facts: Any) -> ResourceClaim:
    labels = {} if queue is None else {"kai.scheduler/queue": queue}
    return ResourceClaim(name=name, labels=labels, device_class="gpu", count=count, **facts)


def claims(name: str, claim: str, gpus: int = 1, *, own: bool = False, **facts: Any) -> JobSpec:
    use = ClaimUse(claim=claim, from_template=own)
    return a_job(name, request=ask(dra_gpus=gpus), task={"claims": (use,)}, **facts)


def schedule(
    jobs: list[JobSpec],
    known: list[ResourceClaim],
    *,
    slices: dict[str, int],
    actions: tuple[str, ...] = ("allocate",),
    enabled: bool = True,
    **facts: Any,
) -> CycleResult:
    cluster = a_cluster(
        nodes=[a_node(name, devices, dra_gpus=devices) for name, devices in slices.items()],
        jobs=jobs,
        resource_slices=tuple(a_slice(name, devices) for name, devices in slices.items()),
        resource_claims=tuple(known),
        **facts,
    )
    parameters = Parameters(dynamic_resource_allocation=enabled)
    return run_cycle(cluster, SchedulerConfig(actions=actions, parameters=parameters))


def test_a_node_must_have_the_claimed_devices() -> None:
    job = claims("job", "c", gpus=2)

    result = schedule([job], [a_claim("c", 2)], slices={"a": 1, "b": 2})

    assert placed(result) == {"job-0": "b"}
    (bind,) = [d for d in result.decisions if isinstance(d, Bind)]
    assert [device.name for _, devices in bind.devices for device in devices] == ["0", "1"]


def test_a_device_is_allocated_once() -> None:
    jobs = [claims("one", "c1", age=1), claims("two", "c2")]

    result = schedule(jobs, [a_claim("c1"), a_claim("c2")], slices={"a": 1})

    assert placed(result) == {"one-0": "a"}


def test_tasks_with_the_same_claim_share_its_devices() -> None:
    jobs = [claims("one", "c"), claims("two", "c")]

    result = schedule(jobs, [a_claim("c")], slices={"a": 1, "b": 1})

    assert len(placed(result)) == 2
    assert len(set(placed(result).values())) == 1


def test_devices_reserved_for_an_unknown_task_are_not_allocated() -> None:
    device = Device(driver="d", pool="a", name="0")
    taken = a_claim("other", allocation=(device,), reserved_for=("stranger",))

    result = schedule([claims("job", "c")], [a_claim("c"), taken], slices={"a": 1})

    assert placed(result) == {}


def test_a_shared_claim_must_be_labelled_with_the_jobs_queue() -> None:
    for queue in (None, "other"):
        claim = a_claim("c", queue=queue)
        assert placed(schedule([claims("job", "c")], [claim], slices={"a": 1})) == {}
        own = claims("job", "c", own=True)
        assert placed(schedule([own], [claim], slices={"a": 1})) == {"job-0": "a"}


def test_a_claim_is_reserved_for_at_most_256_tasks() -> None:
    def full(users: int) -> ResourceClaim:
        return a_claim("c", reserved_for=tuple(f"user{i}" for i in range(users)))

    assert placed(schedule([claims("job", "c")], [full(256)], slices={"a": 1})) == {}
    assert placed(schedule([claims("job", "c")], [full(255)], slices={"a": 1})) == {"job-0": "a"}


def test_a_missing_claim_is_the_reason_of_a_pending_task() -> None:
    result = schedule([claims("job", "c")], [], slices={"a": 1})

    (refusal,) = result.unschedulable_tasks["job"]["job-0"]
    assert "'c' does not exist" in refusal.reason


def test_claims_require_dynamic_resource_allocation() -> None:
    result = schedule([claims("job", "c")], [a_claim("c")], slices={"a": 1}, enabled=False)

    assert placed(result) == {}


def test_claimed_gpus_count_towards_the_queue() -> None:
    jobs = [claims("one", "c1", age=1), claims("two", "c2")]
    queues = [a_queue("queue", limit=1)]

    result = schedule(jobs, [a_claim("c1"), a_claim("c2")], slices={"a": 2}, queues=queues)

    assert placed(result) == {"one-0": "a"}


def test_the_devices_of_a_victim_go_to_the_job_it_was_evicted_for() -> None:
    device = Device(driver="d", pool="a", name="0")
    held = a_claim("c1", allocation=(device,), reserved_for=("low-0",))
    jobs = [claims("low", "c1", on="a"), claims("high", "c2", priority=75)]

    result = schedule(jobs, [held, a_claim("c2")], slices={"a": 1}, actions=("preempt",))

    assert stopped(result) == ["low-0"]
    assert promised(result) == {"high-0": "a"}


def test_gpus_behind_claims_are_not_available_without_a_claim() -> None:
    assert placed(schedule([a_job("job")], [], slices={"a": 4})) == {}
