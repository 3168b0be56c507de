"""Events: what happens at which moment."""

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
from navarch.core.command import CommandKind
from navarch.core.health import Health
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import NodeStatus
from navarch.sim.scenario.words import GPU_INDEX, XID, FailureType, Scope


class Action(StrEnum):
    """What an event does."""

    START_FLEET = "start_fleet"
    STOP_FLEET = "stop_fleet"
    INJECT_FAILURE = "inject_failure"
    RECOVER_FAILURE = "recover_failure"
    ISSUE_COMMAND = "issue_command"
    WAIT_FOR_STATUS = "wait_for_status"
    WAIT = "wait"
    LOG = "log"
    ASSERT = "assert"
    # What the reference has not:
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
class Params:
    """The details of an event; which of them it takes depends on its action."""

    failure_type: str | None = key(
        TEXT, default=None, doc="what goes wrong; for `assert`: which kind of assertion it is"
    )
    xid_code: int | None = key(XID, default=None, doc="the number of the error, for `xid_error`")
    gpu_index: int | None = key(GPU_INDEX, default=None, doc="which GPU; -1 for all of them")
    message: str | None = key(TEXT, default=None, doc="what the driver says")
    check: str | None = key(TEXT, default=None, doc="which check, for the failure type `check`")
    health: Health | None = key(
        Choice(options=Health), default=None, doc="what that check says; unhealthy if left out"
    )
    fatal: bool | None = key(
        BOOLEAN, default=None, doc="whether what it says is to be acted on at once"
    )
    lasting: bool | None = key(
        BOOLEAN, default=None, doc="whether it happened, so that only a restart takes it back"
    )
    command_type: CommandKind | None = key(
        Choice(options=CommandKind), default=None, doc="what the operator asks for"
    )
    command_args: Mapping[str, str] = key(
        MapOf(each=TEXT), default_factory=dict, doc="the command's details, such as `reason`"
    )
    expected_status: str | None = key(TEXT, default=None, doc="the word that must be seen")
    timeout: timedelta | None = key(
        DURATION, default=None, doc="how long to wait for a status; 30s if left out"
    )
    log_message: str | None = key(TEXT, default=None, doc="what to write")
    nodes: int | None = key(
        Integer(least=0, most=NODES_PER_POOL_MAX), default=None, doc="the size to scale a pool to"
    )
    utilization: float | None = key(
        Real(most=100.0), default=None, doc="how busy a pool's GPUs are from now on, in percent"
    )
    down_for: timedelta | None = key(
        DURATION, default=None, doc="how long the control plane stays away; 5s if left out"
    )
    scope: Scope | None = key(
        Choice(options=Scope),
        default=None,
        doc="what `target` names, for `partition`, `heal`, `install_driver` and `set_clock`; a "
        "node if left out",
    )
    driver: str | None = key(TEXT, default=None, doc="the version of the driver")
    ahead: timedelta | None = key(DURATION, default=None, doc="how far a clock is ahead")
    behind: timedelta | None = key(DURATION, default=None, doc="how far a clock is behind")

    @property
    def written(self) -> frozenset[str]:
        """The names of those that were given."""
        return frozenset(name for name in keys_of(Params) if getattr(self, name) not in (None, {}))


_NOTHING: frozenset[str] = frozenset()
_OF_A_CHECK = ("check", "health", "fatal", "lasting")
_TAKES: Mapping[Action, tuple[frozenset[str], frozenset[str]]] = {
    # The parameters an action needs, and those it may have.
    Action.START_FLEET: (_NOTHING, _NOTHING),
    Action.STOP_FLEET: (_NOTHING, _NOTHING),
    Action.INJECT_FAILURE: (
        frozenset({"failure_type"}),
        frozenset({"xid_code", "gpu_index", "message", *_OF_A_CHECK}),
    ),
    Action.RECOVER_FAILURE: (_NOTHING, frozenset({"failure_type", "check"})),
    Action.ISSUE_COMMAND: (frozenset({"command_type"}), frozenset({"command_args"})),
    Action.WAIT_FOR_STATUS: (frozenset({"expected_status"}), frozenset({"timeout"})),
    Action.WAIT: (_NOTHING, _NOTHING),
    Action.LOG: (frozenset({"log_message"}), _NOTHING),
    Action.ASSERT: (frozenset({"expected_status"}), frozenset({"failure_type"})),
    Action.CRASH: (_NOTHING, frozenset({"down_for"})),
    Action.PARTITION: (_NOTHING, frozenset({"scope"})),
    Action.HEAL: (_NOTHING, frozenset({"scope"})),
    Action.RECLAIM: (_NOTHING, _NOTHING),
    Action.SCALE: (frozenset({"nodes"}), _NOTHING),
    Action.SET_LOAD: (frozenset({"utilization"}), _NOTHING),
    Action.OVERRIDE: (_NOTHING, _NOTHING),
    Action.INSTALL_DRIVER: (frozenset({"driver"}), frozenset({"scope", "xid_code"})),
    Action.SET_CLOCK: (_NOTHING, frozenset({"scope", "ahead", "behind"})),
}
ABOUT_NODES = (
    Action.INJECT_FAILURE,
    Action.RECOVER_FAILURE,
    Action.ISSUE_COMMAND,
    Action.WAIT_FOR_STATUS,
    Action.RECLAIM,
    Action.OVERRIDE,
)
"""What has a node for its target."""
_NO_TARGET = (Action.START_FLEET, Action.STOP_FLEET, Action.WAIT, Action.LOG, Action.CRASH)


def _known_action(action: str) -> Iterator[Fault]:
    if action not in list(Action):
        yield Fault(
            at=("action",),
            message=f'unknown action "{action}"',
            remedy=f"known are {', '.join(Action)}",
        )


def _right_params(action: str, params: Params) -> Iterator[Fault]:
    if action not in list(Action):
        return
    needed, allowed = _TAKES[Action(action)]
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


def _right_target(action: str, target: str) -> Iterator[Fault]:
    if action not in list(Action):
        return
    if target and action in _NO_TARGET:
        yield Fault(at=("target",), message=f"{action} takes no target", remedy="leave target out")
    elif not target and action not in _NO_TARGET:
        yield Fault(
            at=("action",), message=f"{action} needs a target", remedy="add target: with a name"
        )


_STATUSES = tuple(NodeStatus)


def _right_words(action: str, params: Params) -> Iterator[Fault]:
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
        yield from _right_check(action, params)
    wanted = params.expected_status
    if action == Action.WAIT_FOR_STATUS and wanted is not None and wanted not in _STATUSES:
        yield Fault(
            at=("params", "expected_status"),
            message=f'unknown status "{wanted}"',
            remedy=f"known are {', '.join(_STATUSES)}",
        )


def _right_check(action: str, params: Params) -> Iterator[Fault]:
    """A check is named where the failure is one of a check, and nowhere else."""
    if params.failure_type != FailureType.CHECK:
        for name in sorted(params.written & {*_OF_A_CHECK}):
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
            message=f"a check that says {params.health} is no failure",
            remedy="write degraded or unhealthy; recover_failure takes it back",
        )


def _right_option(action: str, optional: bool) -> Iterator[Fault]:
    if optional and action not in ABOUT_NODES:
        yield Fault(
            at=("optional",),
            message=f"{action} is not about a node, so that nothing tells when to leave it out",
            remedy="leave optional out",
        )


@block(rules=(_known_action, _right_params, _right_target, _right_words, _right_option))
class Event:
    """One thing that happens."""

    at: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="when, counted from the scenario's beginning"
    )
    action: str = key(TEXT, doc="what happens")
    target: str = key(TEXT, default="", doc="to which node, pool or place")
    optional: bool = key(
        BOOLEAN,
        default=False,
        doc="whether it keeps nobody waiting: it happens once its node is there, and is left out "
        "if that takes ten minutes; for traces, whose nodes another policy may never buy",
    )
    params: Params = key(Nested(cls=Params), default=Params(), doc="the details")
