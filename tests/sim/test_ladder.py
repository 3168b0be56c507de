"""Machines are repaired in place, through crashes at any step."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Phase
from navarch.core.recovery import Recovery, RecoveryState, RecoveryStep, Remediation, recovery_id
from navarch.providers.simulated import Habits
from navarch.service.views import pool_spec
from navarch.sim.world.leader import CrashPoint
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")
LADDER = Remediation(strategy="ladder")
POOL = a_pool(size=2, nodes_max=3, remediation=LADDER)


def xid(code: int, action: str, gpu: str = "GPU-0") -> CheckResult:
    return CheckResult(
        check=f"xid/{code}/{gpu}",
        health=Health.UNHEALTHY,
        reason=f"XID {code}",
        fatal=True,
        lasting=True,
        action=action,
        facts={"code": str(code), "kind": "xid", "gpu": gpu},
    )


CRASHED = xid(13, "restart_app")
"""Fatal by a custom rule: the default policy ignores errors of programs."""
UNCONTAINED = xid(95, "reset_gpu")
FALLEN = xid(79, "reboot_node")
WORN_OUT = xid(64, "replace")


def steps_done(world: World) -> list[str]:
    return [str(action.step) for action in world.hosts.action_log]


def the_recovery(world: World) -> Recovery:
    (recovery,) = world.fleet().recoveries.values()
    return recovery


def ladder_story(
    result: CheckResult, cleared_by: RecoveryStep, check: Callable[[World, NodeId], None]
) -> Callable[[World], object]:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.break_down(victim, result, cleared_by=cleared_by)
        await world.until(lambda: victim not in world.serving(TRAINING), within_s=60)
        await world.converge()
        check(world, victim)

    return story


@pytest.mark.parametrize(
    ("result", "cleared_by", "steps"),
    [
        (CRASHED, RecoveryStep.RESTART_APP, ["restart_app"]),
        (CRASHED, RecoveryStep.RESET_GPU, ["restart_app", "reset_gpu"]),
        (UNCONTAINED, RecoveryStep.RESET_GPU, ["reset_gpu"]),
        (UNCONTAINED, RecoveryStep.REBOOT, ["reset_gpu", "reboot"]),
        (UNCONTAINED, RecoveryStep.POWER_CYCLE, ["reset_gpu", "reboot", "power_cycle"]),
        (FALLEN, RecoveryStep.REBOOT, ["reboot"]),
        (FALLEN, RecoveryStep.POWER_CYCLE, ["reboot", "power_cycle"]),
    ],
    ids=[
        "restart",
        "restart, reset",
        "reset",
        "reset, reboot",
        "reset, reboot, power",
        "reboot",
        "reboot, power",
    ],
)
def test_a_machine_is_repaired_by_the_mildest_step_that_helps(
    result: CheckResult, cleared_by: RecoveryStep, steps: list[str]
) -> None:
    def check(world: World, victim: NodeId) -> None:
        assert steps_done(world) == steps
        assert victim in world.serving(TRAINING), "a mended node works again"
        assert the_recovery(world).state is RecoveryState.SUCCEEDED
        assert victim not in world.workloads.cordoned

    simulate(ladder_story(result, cleared_by, check), seed=3, pools=[POOL])  # type: ignore[arg-type]


def test_a_machine_that_no_step_repairs_is_replaced() -> None:
    def check(world: World, victim: NodeId) -> None:
        assert steps_done(world) == ["reboot", "power_cycle"]
        assert world.fleet().nodes[victim].gone
        assert the_recovery(world).state is RecoveryState.REPLACED

    simulate(ladder_story(FALLEN, RecoveryStep.REPLACE, check), seed=3, pools=[POOL])  # type: ignore[arg-type]


def test_a_fault_that_needs_a_replacement_causes_no_reboot() -> None:
    def check(world: World, victim: NodeId) -> None:
        assert steps_done(world) == []
        assert world.fleet().nodes[victim].gone

    simulate(ladder_story(WORN_OUT, RecoveryStep.REPLACE, check), seed=3, pools=[POOL])  # type: ignore[arg-type]


def test_work_has_left_before_a_machine_is_rebooted() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.workloads.drain_s = (200.0, 200.0)
        began = world.clock.monotonic()
        world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
        await world.until(lambda: bool(world.hosts.action_log), within_s=900)
        assert world.hosts.action_log[0].at_s >= began + 200.0
        assert ("drain", victim) in world.workloads.calls
        await world.converge()

    simulate(story, seed=5, pools=[POOL])


def test_a_gpu_that_is_held_is_not_reset_and_the_holder_is_named() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.hosts.effects[world.machine(victim).id].holders = "nv-hostengine (pid 812)"
        world.break_down(victim, UNCONTAINED, cleared_by=RecoveryStep.RESET_GPU)
        await world.until(lambda: bool(world.hosts.action_log), within_s=1800)
        assert steps_done(world) == ["reboot"]
        assert any("nv-hostengine (pid 812)" in a.outcome for a in the_recovery(world).history)
        await world.converge()

    simulate(story, seed=6, pools=[POOL])


def test_an_unplanned_boot_cancels_the_steps_planned_for_the_last_boot() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.workloads.drain_s = (250.0, 250.0)
        world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
        await world.until(lambda: world.fleet().nodes[victim].phase is Phase.DRAINING, within_s=60)
        world.hosts.effects[world.machine(victim).id].faults.clear()
        world.restart_agent(victim, boot_id="boot-2")
        await world.converge()
        assert steps_done(world) == []
        assert the_recovery(world).state is RecoveryState.VOID

    simulate(story, seed=7, pools=[POOL])


def test_reboots_of_a_node_are_limited() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        for _ in range(4):
            world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
            await world.clock.sleep(7200)
            if victim not in world.serving(TRAINING):
                break
        done = Counter(action.step for action in world.hosts.action_log)
        assert done == {RecoveryStep.REBOOT: 3, RecoveryStep.POWER_CYCLE: 1}
        await world.converge()

    simulate(story, seed=8, pools=[POOL])


def test_a_ladder_without_replacement_ends_with_a_ticket() -> None:
    pool = a_pool(
        size=2,
        nodes_max=3,
        remediation=Remediation(strategy="ladder", steps=(RecoveryStep.RESET_GPU,)),
    )

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.break_down(victim, UNCONTAINED, cleared_by=RecoveryStep.REPLACE)
        await world.clock.sleep(3600)
        assert the_recovery(world).state is RecoveryState.TICKET
        assert victim not in world.serving(TRAINING)
        assert any("recovery.ticket" in line for line in world.trace)

        world.hosts.effects[world.machine(victim).id].faults.clear()
        world.restart_agent(victim, boot_id="boot-2")
        await world.until(lambda: victim in world.serving(TRAINING), within_s=600)

    simulate(story, seed=9, pools=[pool])


def test_a_dry_run_records_its_action_once_and_does_nothing() -> None:
    pool = a_pool(size=2, nodes_max=3, remediation=Remediation(strategy="ladder", dry_run=True))

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
        await world.clock.sleep(3600)
        assert steps_done(world) == []
        node = world.fleet().nodes[victim]
        assert (node.cordoned, node.retiring, node.recovery) == (None, None, None)
        recorded = [line for line in world.trace if "node.would_have" in line]
        assert len(recorded) == 1, recorded
        assert victim not in world.workloads.cordoned, "work is not kept off it either"

    simulate(story, seed=10, pools=[pool])


def test_a_broken_node_is_cordoned_only_if_its_pool_acts_on_faults() -> None:
    alert = Remediation(strategy="alert_only")
    dry = Remediation(strategy="cordon_and_replace", dry_run=True)
    done = Remediation(strategy="cordon_and_replace")
    pool = a_pool(size=2, nodes_max=3, remediation=alert, auto_replace=False)

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
        for remediation, closed in ((alert, False), (dry, False), (done, True)):
            spec = replace(pool_spec(pool), remediation=remediation)
            await world.ask(lambda api, spec=spec: api.put_pool(spec, reason="trying it"))  # type: ignore[misc]
            await world.clock.sleep(120)
            assert (victim in world.workloads.cordoned) is closed
        world.agent(victim).results.pop(FALLEN.check)
        await world.ask(lambda api: api.declare_healthy(victim, reason="reseated"))
        await world.clock.sleep(10)
        assert victim not in world.workloads.cordoned, "an automatic cordon goes with its reason"

    simulate(story, seed=12, pools=[pool])


# The sweep


async def a_climb(world: World) -> None:
    """Fail a GPU that needs a power cycle, one that needs a reset, and silence a machine."""
    await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
    first, second = world.serving(TRAINING)
    world.break_down(first, UNCONTAINED, cleared_by=RecoveryStep.POWER_CYCLE)
    await world.clock.sleep(2700)
    world.break_down(second, xid(94, "reset_gpu"), cleared_by=RecoveryStep.RESET_GPU)
    await world.clock.sleep(900)
    world.break_down(second, FALLEN, cleared_by=RecoveryStep.REBOOT)
    await world.clock.sleep(900)
    await world.converge()
    check_action_log(world)


def check_action_log(world: World) -> None:
    """Check that no step repeats for one fault and no reset runs on a later boot."""
    steps = Counter((entry.recovery, entry.step) for entry in world.hosts.action_log)
    twice = [key for key, n in steps.items() if n > 1]
    assert not twice, f"seed {world.seed}: done twice: {twice}"
    for action in world.hosts.action_log:
        recovery = world.fleet().recoveries.get(action.recovery)  # type: ignore[call-overload]
        assert recovery is not None, f"{action} has no recovery"
        if action.step is RecoveryStep.RESET_GPU:
            (_ordered,) = [a for a in recovery.history if a.step is action.step and a.ran]
            # A recovery is named after the boot on which its fault was seen.
            meant = recovery_id(recovery.node, action.boot_id, recovery.check)
            assert recovery.id == meant, f"{action} was not meant for this boot"
    resets = [action for action in world.hosts.action_log if action.step is RecoveryStep.RESET_GPU]
    reboots = [
        action for action in world.hosts.action_log if action.step is not RecoveryStep.RESET_GPU
    ]
    for reset in resets:
        later = [b for b in reboots if b.recovery == reset.recovery and b.at_s < reset.at_s]
        assert not later, f"{reset} came after {later}"


CALM = Habits(listing_lag_s=30.0)
LOG = simulate(a_climb, seed=1, pools=[POOL], habits=CALM).leadership.crash_point.log
STEPS = [
    number
    for number, what in enumerate(LOG)
    if any(word in what for word in ("recover", "draining", "command", "reboot", "power"))
    or what == "drain"
]
"""Every call of a recovery, and every commit of its progress."""
CHUNKS = 4


def test_the_story_takes_every_step_of_the_ladder() -> None:
    world = simulate(a_climb, seed=1, pools=[POOL], habits=CALM)
    assert set(steps_done(world)) == {"reset_gpu", "reboot", "power_cycle"}
    assert {"power cycle", "commit recovery.ordered", "commit recovery.verifying"} <= set(LOG)


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_step_repeats_nothing_and_resets_no_new_boot(
    after: bool, chunk: int
) -> None:
    for at in STEPS[chunk::CHUNKS]:
        crash_point = CrashPoint(at=at, after=after)
        world = simulate(a_climb, seed=1, pools=[POOL], habits=CALM, crash_point=crash_point)
        assert world.leadership.crashes == 1, f"no crash at call {at}: {LOG[at]}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_no_step_is_repeated_in_a_storm(seed: int) -> None:
    untouched = simulate(a_climb, seed=seed, pools=[POOL], habits=STORMY, error_rate=0.1)
    step = max(1, untouched.leadership.crash_point.calls // 20)
    for at in range(seed % step, untouched.leadership.crash_point.calls, step):
        crash_point = CrashPoint(at=at, after=bool((at + seed) % 2))
        simulate(
            a_climb, seed=seed, pools=[POOL], habits=STORMY, error_rate=0.1, crash_point=crash_point
        )


def test_the_pool_sets_the_deadline_of_a_reboot() -> None:
    slow = Remediation(strategy="ladder", reboot_deadline=timedelta(minutes=40))
    pool = a_pool(size=2, nodes_max=3, remediation=slow)

    async def story(world: World) -> None:
        world.hosts.reboot_s = (1800.0, 1800.0)
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.break_down(victim, FALLEN, cleared_by=RecoveryStep.REBOOT)
        await world.clock.sleep(3600)
        assert steps_done(world) == ["reboot"]
        await world.converge()

    simulate(story, seed=11, pools=[pool])
