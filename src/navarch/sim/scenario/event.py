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
from navarch.sim.scenario.kinds import GPU_INDEX, XID, FailureType, TargetScope


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
    SET_CLOCK = "set_clock"


@block()
class EventParams:
    """The parameters of an event; its action determines which it takes."""

    failure_type: str | None = key(
        TEXT, default=None, doc="the type of failure; for `assert`, the type of assertion"
    )
    xid_code: int | None = key(XID, default=None, doc="the XID, for `xid_error`")
    gpu_index: int | None = key(GPU_INDEX, default=None, doc="the GPU; -1 for all of them")
    message: str | None = key(TEXT, default=None, doc="the message of the driver")
    check: str | None = key(TEXT, default=None, doc="the check, for the failure type `check`")
    health: Health | None = key(
        Choice(options=Health), default=None, doc="the result of that check; unhealthy if left out"
    )
    fatal: bool | None = key(
        BOOLEAN, default=None, doc="whether the control plane acts on its first report"
    )
    lasting: bool | None = key(
        BOOLEAN, default=None, doc="whether only a restart of the machine clears it"
    )
    command_type: CommandKind | None = key(
        Choice(options=CommandKind), default=None, doc="the command that the operator issues"
    )
    command_args: Mapping[str, str] = key(
        MapOf(each=TEXT), default_factory=dict, doc="arguments of the command, such as `reason`"
    )
    expected_status: str | None = key(TEXT, default=None, doc="the expected value")
    timeout: timedelta | None = key(
        DURATION, default=None, doc="how long to wait for a status; 30s if left out"
    )
    log_message: str | None = key(TEXT, default=None, doc="the text to log")
    nodes: int | None = key(
        Integer(least=0, most=NODES_PER_POOL_MAX), default=None, doc="the size to scale a pool to"
    )
    utilization: float | None = key(
        Real(most=100.0),
        default=None,
        doc="the utilization of its GPUs from now on, in percent",
    )
    down_for: timedelta | None = key(
        DURATION, default=None, doc="how long the control plane stays down; 5s if left out"
    )
    scope: TargetScope | None = key(
        Choice(options=TargetScope),
        default=None,
        doc="what `target` names, for `partition`, `heal`, `install_driver` and `set_clock`; a "
        "node if left out",
    )
    driver: str | None = key(TEXT, default=None, doc="the version of the driver")
    ahead: timedelta | None = key(DURATION, default=None, doc="how far the clock runs ahead")
    behind: timedelta | None = key(DURATION, default=None, doc="how far the clock runs behind")

    @property
    def written(self) -> frozenset[str]:
        """The names of the parameters that the file contains."""
        return frozenset(
            name for name in keys_of(EventParams) if getattr(self, name) not in (None, {})
        )


_NONE: frozenset[str] = frozenset()
_CHECK_PARAMS = ("check", "health", "fatal", "lasting")
_ACTION_PARAMS: Mapping[Action, tuple[frozenset[str], frozenset[str]]] = {
    # The required and the optional parameters of each action.
    Action.START_FLEET: (_NONE, _NONE),
    Action.STOP_FLEET: (_NONE, _NONE),
    Action.INJECT_FAILURE: (
        frozenset({"failure_type"}),
        frozenset({"xid_code", "gpu_index", "message", *_CHECK_PARAMS}),
    ),
    Action.RECOVER_FAILURE: (_NONE, frozenset({"failure_type", "check"})),
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
        yield Fault(
            at=("action",),
            message=f'unknown action "{action}"',
            remedy=f"known are {', '.join(Action)}",
        )


def _check_params(action: str, params: EventParams) -> Iterator[Fault]:
    if action not in list(Action):
        return
    needed, allowed = _ACTION_PARAMS[Action(action)]
    written = params.written
    for name in sorted(needed - written):
        yield Fault(
            at=("params",),
            message=f"{action} needs params.{name}",
            remedy=f"add {name} under params",
        )
    for name in sorted(written - needed - allowed):
        takes = ", ".join(sorted(needed | allowed)) or "none"
        yield Fault(
            at=("params", name),
            message=f"{action} does not take params.{name}",
            remedy=f"leave it out; it takes {takes}",
        )


def _check_target(action: str, target: str) -> Iterator[Fault]:
    if action not in list(Action):
        return
    if target and action in _NO_TARGET:
        yield Fault(at=("target",), message=f"{action} takes no target", remedy="leave target out")
    elif not target and action not in _NO_TARGET:
        yield Fault(
            at=("action",), message=f"{action} needs a target", remedy="add target: with a name"
        )


_STATUSES = tuple(NodeStatus)


def _check_failure_params(action: str, params: EventParams) -> Iterator[Fault]:
    known = list(FailureType)
    if action in (Action.INJECT_FAILURE, Action.RECOVER_FAILURE):
        if params.failure_type is not None and params.failure_type not in known:
            yield Fault(
                at=("params", "failure_type"),
                message=f"unknown failure type: {params.failure_type}",
                remedy=f"known are {', '.join(known)}",
            )
        if params.failure_type == FailureType.XID_ERROR and action == Action.INJECT_FAILURE:
            if not params.xid_code:
                yield Fault(
                    at=("params", "failure_type"),
                    message="xid_error needs params.xid_code",
                    remedy="add xid_code: 79, for example",
                )
        elif params.xid_code is not None:
            yield Fault(
                at=("params", "xid_code"),
                message="xid_code goes with failure_type: xid_error",
                remedy="leave it out",
            )
        yield from _check_named_check(action, params)
    wanted = params.expected_status
    if action == Action.WAIT_FOR_STATUS and wanted is not None and wanted not in _STATUSES:
        yield Fault(
            at=("params", "expected_status"),
            message=f'unknown status "{wanted}"',
            remedy=f"known are {', '.join(_STATUSES)}",
        )


def _check_named_check(action: str, params: EventParams) -> Iterator[Fault]:
    """Check that the parameters of a check go with the failure type `check`."""
    if params.failure_type != FailureType.CHECK:
        for name in sorted(params.written & {*_CHECK_PARAMS}):
            yield Fault(
                at=("params", name),
                message=f"{name} goes with failure_type: check",
                remedy="leave it out",
            )
    elif action == Action.INJECT_FAILURE and not params.check:
        yield Fault(
            at=("params", "failure_type"),
            message="check needs params.check",
            remedy="add check: thermal, for example",
        )
    if params.health in (Health.HEALTHY, Health.UNKNOWN):
        yield Fault(
            at=("params", "health"),
            message=f"health: {params.health} is not a failure",
            remedy="write degraded or unhealthy; the action recover_failure clears it",
        )


def _check_optional(action: str, optional: bool) -> Iterator[Fault]:
    if optional and action not in NODE_ACTIONS:
        yield Fault(
            at=("optional",),
            message=f"{action} has no node as its target, so it cannot be optional",
            remedy="leave optional out",
        )


@block(rules=(_check_action, _check_params, _check_target, _check_failure_params, _check_optional))
class ScenarioEvent:
    """One action at one moment."""

    at: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="when, counted from the start of the scenario"
    )
    action: str = key(TEXT, doc="the action")
    target: str = key(TEXT, default="", doc="the node, pool or place it applies to")
    optional: bool = key(
        BOOLEAN,
        default=False,
        doc="whether the event may be skipped: it runs once its node exists, without delaying "
        "later events, and is dropped after ten minutes; for traces, whose nodes another policy "
        "may never buy",
    )
    params: EventParams = key(Nested(cls=EventParams), default=EventParams(), doc="its parameters")
