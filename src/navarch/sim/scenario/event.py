"""Events: actions that a scenario takes at given moments."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    TEXT,
    Choice,
    Integer,
    MapOf,
    Real,
)
from navarch.config.schema import Fault, block, key, keys_of
from navarch.core.health import Health
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import NodeStatus
from navarch.core.recovery import CommandKind
from navarch.sim.scenario.kinds import (
    GPU_INDEX,
    XID,
    FailureType,
    Software,
    TargetScope,
    check_place,
)


class Action(StrEnum):
    """The actions an event can take."""

    START_FLEET = "start_fleet"
    STOP_FLEET = "stop_fleet"
    INJECT_FAILURE = "inject_failure"
    RECOVER_FAILURE = "recover_failure"
    ISSUE_COMMAND = "issue_command"
    WAIT_FOR_STATUS = "wait_for_status"
    WAIT = "wait"
    LOG = "log"
    ASSERT = "assert"
    # Extensions of the original format:
    CRASH = "crash"
    PARTITION = "partition"
    HEAL = "heal"
    RECLAIM = "reclaim"
    SCALE = "scale"
    SET_LOAD = "set_load"
    OVERRIDE = "override"
    INSTALL_DRIVER = "install_driver"
    ROLL_OUT = "roll_out"
    SET_CLOCK = "set_clock"


@block()
class EventParams:
    """The parameters of an event; its action determines which it takes."""

    failure_type: str | None = key(
        TEXT, "the type of failure; for `assert`, the type of assertion", default=None
    )
    xid_code: int | None = key(XID, "the XID, for `xid_error`", default=None)
    gpu_index: int | None = key(GPU_INDEX, "the GPU; -1 for all of them", default=None)
    message: str | None = key(TEXT, "the message of the driver", default=None)
    check: str | None = key(TEXT, "the check, for the failure type `check`", default=None)
    health: Health | None = key(
        Choice(options=Health), "the result of that check; unhealthy if left out", default=None
    )
    fatal: bool | None = key(
        BOOLEAN, "whether the control plane acts on its first report", default=None
    )
    true_health: Health | None = key(
        Choice(options=Health),
        "the true health of the machine: `healthy` for a false alarm; as the failure if left out",
        default=None,
    )
    lasting: bool | None = key(
        BOOLEAN, "whether only a restart of the machine clears it", default=None
    )
    command_type: CommandKind | None = key(
        Choice(options=CommandKind), "the command that the operator issues", default=None
    )
    command_args: Mapping[str, str] = key(
        MapOf(each=TEXT), "arguments of the command, such as `reason`", default_factory=dict
    )
    expected_status: str | None = key(TEXT, "the expected value", default=None)
    timeout: timedelta | None = key(
        DURATION, "how long to wait for a status; 30s if left out", default=None
    )
    log_message: str | None = key(TEXT, "the text to log", default=None)
    nodes: int | None = key(
        Integer(least=0, most=NODES_PER_POOL_MAX), "the size to scale a pool to", default=None
    )
    utilization: float | None = key(
        Real(most=100.0), "the utilization of its GPUs from now on, in percent", default=None
    )
    down_for: timedelta | None = key(
        DURATION, "how long the control plane stays down; 5s if left out", default=None
    )
    scope: TargetScope | None = key(
        Choice(options=TargetScope),
        "what `target` names: a node if left out; a label is written as `rack=r-7`",
        default=None,
    )
    every: timedelta | None = key(
        DURATION, "the time between one machine and the next; all at once if left out", default=None
    )
    duration: timedelta | None = key(
        DURATION, "how long the failure lasts; until it is repaired if left out", default=None
    )
    software: Software | None = key(
        Choice(options=Software), "the software that is rolled out", default=None
    )
    version: str | None = key(TEXT, "its new version", default=None)
    new_machines: bool | None = key(
        BOOLEAN,
        "whether machines that boot from now on have the new version; once the roll-out is "
        "complete if left out",
        default=None,
    )
    driver: str | None = key(TEXT, "the version of the driver", default=None)
    ahead: timedelta | None = key(DURATION, "how far the clock runs ahead", default=None)
    behind: timedelta | None = key(DURATION, "how far the clock runs behind", default=None)

    @property
    def written(self) -> frozenset[str]:
        """The names of the parameters that the file contains."""
        return frozenset(
            name for name in keys_of(EventParams) if getattr(self, name) not in (None, {})
        )


_NONE: frozenset[str] = frozenset()
_CHECK_PARAMS = ("check", "health", "fatal", "lasting")
_FAILURE_PARAMS = frozenset({"xid_code", "gpu_index", "message", "true_health", *_CHECK_PARAMS})
_ACTION_PARAMS: Mapping[Action, tuple[frozenset[str], frozenset[str]]] = {
    # The required and the optional parameters of each action.
    Action.START_FLEET: (_NONE, _NONE),
    Action.STOP_FLEET: (_NONE, _NONE),
    Action.INJECT_FAILURE: (
        frozenset({"failure_type"}),
        _FAILURE_PARAMS | {"scope", "every", "duration"},
    ),
    Action.RECOVER_FAILURE: (_NONE, frozenset({"failure_type", "check", "scope"})),
    Action.ISSUE_COMMAND: (frozenset({"command_type"}), frozenset({"command_args"})),
    Action.WAIT_FOR_STATUS: (frozenset({"expected_status"}), frozenset({"timeout"})),
    Action.WAIT: (_NONE, _NONE),
    Action.LOG: (frozenset({"log_message"}), _NONE),
    Action.ASSERT: (frozenset({"expected_status"}), frozenset({"failure_type"})),
    Action.CRASH: (_NONE, frozenset({"down_for"})),
    Action.PARTITION: (_NONE, frozenset({"scope"})),
    Action.HEAL: (_NONE, frozenset({"scope"})),
    Action.RECLAIM: (_NONE, _NONE),
    Action.SCALE: (frozenset({"nodes"}), _NONE),
    Action.SET_LOAD: (frozenset({"utilization"}), _NONE),
    Action.OVERRIDE: (_NONE, _NONE),
    Action.INSTALL_DRIVER: (frozenset({"driver"}), frozenset({"scope", "xid_code"})),
    Action.ROLL_OUT: (
        frozenset({"software", "version"}),
        _FAILURE_PARAMS | {"failure_type", "scope", "every", "new_machines"},
    ),
    Action.SET_CLOCK: (_NONE, frozenset({"scope", "ahead", "behind"})),
}
NODE_ACTIONS = (
    Action.INJECT_FAILURE,
    Action.RECOVER_FAILURE,
    Action.ISSUE_COMMAND,
    Action.WAIT_FOR_STATUS,
    Action.RECLAIM,
    Action.OVERRIDE,
)
"""Actions with a node as their target."""
_NO_TARGET = (Action.START_FLEET, Action.STOP_FLEET, Action.WAIT, Action.LOG, Action.CRASH)


def _check_action(action: str) -> Iterator[Fault]:
    if action not in list(Action):
        yield Fault(f'unknown action "{action}"', f"known are {', '.join(Action)}", at=("action",))


def _check_params(action: str, params: EventParams) -> Iterator[Fault]:
    if action not in list(Action):
        return
    needed, allowed = _ACTION_PARAMS[Action(action)]
    written = params.written
    for name in sorted(needed - written):
        yield Fault(f"{action} needs params.{name}", f"add {name} under params", at=("params",))
    for name in sorted(written - needed - allowed):
        takes = ", ".join(sorted(needed | allowed)) or "none"
        yield Fault(
            f"{action} does not take params.{name}",
            f"leave it out; it takes {takes}",
            at=("params", name),
        )


def _check_target(action: str, target: str) -> Iterator[Fault]:
    if action not in list(Action):
        return
    if target and action in _NO_TARGET:
        yield Fault(f"{action} takes no target", "leave target out", at=("target",))
    elif not target and action not in _NO_TARGET:
        yield Fault(f"{action} needs a target", "add target: with a name", at=("action",))


_STATUSES = tuple(NodeStatus)


def _check_failure_params(action: str, params: EventParams) -> Iterator[Fault]:
    known = list(FailureType)
    fails = action in (Action.INJECT_FAILURE, Action.ROLL_OUT)
    if fails or action == Action.RECOVER_FAILURE:
        if params.failure_type is not None and params.failure_type not in known:
            yield Fault(
                f"unknown failure type: {params.failure_type}",
                f"known are {', '.join(known)}",
                at=("params", "failure_type"),
            )
        if params.failure_type == FailureType.XID_ERROR and fails:
            if not params.xid_code:
                yield Fault(
                    "xid_error needs params.xid_code",
                    "add xid_code: 79, for example",
                    at=("params", "failure_type"),
                )
        elif params.xid_code is not None:
            yield Fault(
                "xid_code goes with failure_type: xid_error",
                "leave it out",
                at=("params", "xid_code"),
            )
        yield from _check_named_check(action, params)
    wanted = params.expected_status
    if action == Action.WAIT_FOR_STATUS and wanted is not None and wanted not in _STATUSES:
        yield Fault(
            f'unknown status "{wanted}"',
            f"known are {', '.join(_STATUSES)}",
            at=("params", "expected_status"),
        )


def _check_named_check(action: str, params: EventParams) -> Iterator[Fault]:
    """Check that the parameters of a check go with the failure type `check`."""
    if params.failure_type != FailureType.CHECK:
        for name in sorted(params.written & {*_CHECK_PARAMS}):
            yield Fault(
                f"{name} goes with failure_type: check", "leave it out", at=("params", name)
            )
    elif action != Action.RECOVER_FAILURE and not params.check:
        yield Fault(
            "check needs params.check",
            "add check: thermal, for example",
            at=("params", "failure_type"),
        )
    if params.health in (Health.HEALTHY, Health.UNKNOWN):
        yield Fault(
            f"health: {params.health} is not a failure",
            "write degraded or unhealthy; the action recover_failure clears it",
            at=("params", "health"),
        )


def _check_scope(target: str, params: EventParams) -> Iterator[Fault]:
    if params.scope is not None and target:
        yield from check_place(params.scope, target)


def _check_optional(action: str, optional: bool, params: EventParams) -> Iterator[Fault]:
    alone = params.scope in (None, TargetScope.NODE)
    if optional and (action not in NODE_ACTIONS or not alone):
        yield Fault(
            f"{action} has no node as its target, so it cannot be optional",
            "leave optional out",
            at=("optional",),
        )


@block(
    rules=(
        _check_action,
        _check_params,
        _check_target,
        _check_failure_params,
        _check_scope,
        _check_optional,
    )
)
class ScenarioEvent:
    """One action at one moment."""

    at: timedelta = key(
        DURATION_OR_ZERO, "when, counted from the start of the scenario", default=timedelta(0)
    )
    action: str = key(TEXT, "the action")
    target: str = key(TEXT, "the node, pool or place it applies to", default="")
    optional: bool = key(
        BOOLEAN,
        "whether the event may be skipped: it runs once its node exists, without delaying "
        "later events, and is dropped after ten minutes; for traces, whose nodes another policy "
        "may never buy",
        default=False,
    )
    params: EventParams = key(Nested(cls=EventParams), "its parameters", default=EventParams())
