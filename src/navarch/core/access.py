"""Who may do what: roles, operations, scopes, and the one table that every door obeys."""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

import msgspec

from navarch.core.errors import PermissionDeniedError
from navarch.core.ids import PoolName
from navarch.core.ownership import Joiner
from navarch.core.pool import Pool


class Role(StrEnum):
    """What kind of work an identity does."""

    VIEWER = "viewer"
    """Reads the fleet."""
    OPERATOR = "operator"
    """Also changes pools, nodes, jobs and alerts."""
    ADMIN = "admin"
    """Also manages tokens and everything that belongs to no pool. Today's operators' token."""
    AGENT = "agent"
    """Reports machines, and nothing else."""


_READ = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
_CHANGE = frozenset({Role.OPERATOR, Role.ADMIN})
_MANAGE = frozenset({Role.ADMIN})
# An administrator may report, because agents of earlier versions use the operators' token.
_REPORT = frozenset({Role.AGENT, Role.ADMIN})
_ANY = frozenset(Role)

OPERATIONS: Final[Mapping[str, frozenset[Role]]] = {
    "whoami": _ANY,
    # What is read.
    "status": _READ,
    "list_nodes": _READ,
    "list_node_details": _READ,
    "get_node": _READ,
    "list_instances": _READ,
    "get_instance": _READ,
    "list_pools": _READ,
    "get_pool": _READ,
    "offers": _READ,
    "get_command": _READ,
    "list_incidents": _READ,
    "get_incident": _READ,
    "events": _READ,
    "watch": _READ,
    "cost": _READ,
    "why": _READ,
    "list_jobs": _READ,
    "get_job": _READ,
    "explain_job": _READ,
    "list_alerts": _READ,
    "list_silences": _READ,
    "list_channels": _READ,
    "list_deliveries": _READ,
    "list_evidence": _READ,
    "get_evidence": _READ,
    "list_evidence_keys": _READ,
    "list_bringups": _READ,
    "list_held": _READ,
    "list_recoveries": _READ,
    "fleet_health": _READ,
    "judge_xid": _READ,
    "read_openapi": _READ,
    "read_metrics": _READ,
    # What is changed.
    "put_pool": _CHANGE,
    "scale": _CHANGE,
    "delete_pool": _CHANGE,
    "up": _CHANGE,
    "cordon": _CHANGE,
    "uncordon": _CHANGE,
    "drain": _CHANGE,
    "retire": _CHANGE,
    "declare_healthy": _CHANGE,
    "issue": _CHANGE,
    "inject": _CHANGE,
    "submit_job": _CHANGE,
    "cancel_job": _CHANGE,
    "finish_job": _CHANGE,
    "checkpoint_job": _CHANGE,
    "requeue_job": _CHANGE,
    "silence": _CHANGE,
    "end_silence": _CHANGE,
    "release_held": _CHANGE,
    "adopt": _CHANGE,
    "forget": _CHANGE,
    "release": _CHANGE,
    "get_login": _CHANGE,
    "issue_join_token": _CHANGE,
    # What is managed.
    "send_test": _MANAGE,
    "create_token": _MANAGE,
    "list_tokens": _MANAGE,
    "rotate_token": _MANAGE,
    "revoke_token": _MANAGE,
    "rotate_evidence_key": _MANAGE,
    # What agents report.
    "register": _REPORT,
    "heartbeat": _REPORT,
    "pending": _REPORT,
    "resolve": _REPORT,
    "report_health": _REPORT,
    "report_metrics": _REPORT,
    "report_evidence": _REPORT,
    "report_boot": _REPORT,
    "acknowledge": _REPORT,
    "finish": _REPORT,
}
"""The roles that may perform each operation. An operation has the name of its method in `ports`,
whichever door it is reached by."""

FLEET_WIDE: Final = frozenset(
    {
        "list_channels",
        "list_deliveries",
        "send_test",
        "read_metrics",
        "create_token",
        "list_tokens",
        "rotate_token",
        "revoke_token",
        "rotate_evidence_key",
    }
)
"""Operations on what belongs to no pool: they need a grant without pools and teams."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role for some pools: those named by a pattern, and those of a team. Neither: for all."""

    role: Role
    pools: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [*(f"pool {each}" for each in self.pools), *(f"team {each}" for each in self.teams)]
        return f"{self.role} of {', '.join(parts)}" if parts else str(self.role)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The pools to which an operation is limited."""

    everything: bool = False
    pools: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()

    def covers(self, pool: Pool) -> bool:
        """Return whether `pool` belongs to it."""
        return self.covers_pool(pool.name) or self.covers_team(pool.team)

    def covers_pool(self, name: PoolName | None) -> bool:
        """Return whether a pool of this name belongs to it, whatever its team."""
        if self.everything:
            return True
        return name is not None and any(fnmatchcase(name, each) for each in self.pools)

    def covers_team(self, team: str) -> bool:
        """Return whether every pool of a team belongs to it."""
        return self.everything or (bool(team) and team in self.teams)


EVERYTHING = Scope(everything=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An authenticated caller."""

    subject: str
    groups: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    joiner: Joiner | None = None
    """For the machine with a join token: the node and launch that the token proves."""
    extra: Mapping[str, str] = field(default_factory=dict)
    _scopes: dict[str, Scope] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What its grants allow, by operation: neither they nor the table change."""

    @property
    def roles(self) -> frozenset[Role]:
        """Its roles, wherever they apply."""
        return frozenset([grant.role for grant in self.grants])

    def has(self, role: Role) -> bool:
        """Return whether one of its grants is of this role."""
        return role in [grant.role for grant in self.grants]


ADMIN = (Grant(role=Role.ADMIN),)
AGENT = (Grant(role=Role.AGENT),)


def scope_of(identity: Identity, operation: str) -> Scope:
    """Return the pools for which `identity` may perform `operation`.

    Raises PermissionDeniedError if there are none.
    """
    known = identity._scopes.get(operation)  # noqa: SLF001 - written here only
    if known is not None:
        return known
    found = _scope(identity.grants, operation)
    if found is None:
        raise PermissionDeniedError(_missing_role(identity, operation))
    if operation in FLEET_WIDE and not found.everything:
        raise PermissionDeniedError(
            f"{operation} concerns the whole fleet, and {identity.subject} is limited to "
            f"{_and(map(str, identity.grants))}; ask an administrator"
        )
    identity._scopes[operation] = found  # noqa: SLF001
    return found


@lru_cache(maxsize=4096)
def _scope(grants: tuple[Grant, ...], operation: str) -> Scope | None:
    """Return the pools for which some grants allow an operation. Cached: each heartbeat asks."""
    allowed = OPERATIONS[operation]
    usable = [grant for grant in grants if grant.role in allowed]
    if not usable:
        return None
    if any(not grant.pools and not grant.teams for grant in usable):
        return EVERYTHING
    return Scope(
        pools=tuple(sorted({each for grant in usable for each in grant.pools})),
        teams=tuple(sorted({each for grant in usable for each in grant.teams})),
    )


def _missing_role(identity: Identity, operation: str) -> str:
    needed = " or ".join(sorted(OPERATIONS[operation]))
    if identity.roles == {Role.AGENT}:
        return f"a token for agents only reports; {operation} needs the role {needed}"
    if not identity.roles:
        return (
            f"{identity.subject} has no role; {operation} needs {needed}. An administrator can "
            "give one in server.access.bindings"
        )
    return f"{operation} needs the role {needed}, and {identity.subject} has {_and(identity.roles)}"


def _and(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class _Call:
    identity: Identity
    again: Callable[[], Identity] | None


_CALL: ContextVar[_Call | None] = ContextVar("navarch-call", default=None)


class acting_as:  # noqa: N801 - used like a function, and much cheaper than a generator
    """Make `identity` the caller of everything that this task does in the block.

    `again` authenticates the same credentials once more; a long call needs it, because they may
    have been revoked meanwhile.
    """

    __slots__ = ("_call", "_token")

    def __init__(self, identity: Identity, again: Callable[[], Identity] | None = None) -> None:
        self._call = _Call(identity, again)

    def __enter__(self) -> None:
        self._token = _CALL.set(self._call)

    def __exit__(self, *_error: object) -> None:
        _CALL.reset(self._token)


def act_as(identity: Identity, again: Callable[[], Identity]) -> None:
    """Make `identity` the caller of everything that this task does from now on."""
    _CALL.set(_Call(identity, again))


def caller() -> Identity:
    """Return the caller; raise PermissionDeniedError for a call that came past the doors."""
    found = _CALL.get()
    if found is None:
        raise PermissionDeniedError("the call has no caller; this is a bug of the server")
    return found.identity


def caller_again() -> Identity:
    """Return the caller, authenticated once more; UnauthenticatedError if that fails now."""
    found = _CALL.get()
    return caller() if found is None or found.again is None else found.again()


def permitted(operation: str) -> Scope:
    """Return the pools for which the caller may perform `operation`, or raise."""
    return scope_of(caller(), operation)
