"""Issues that checks find, and the one result that a check makes of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import Diagnostics, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError, GpuHealth

WEEKLY = timedelta(days=7)

_RANK = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.DEGRADED: 2, Health.UNHEALTHY: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A fault of one part of the machine. The text begins with the name of the part."""

    health: Health
    text: str
    fatal: bool = False


def degraded(text: str) -> Issue:
    """Return an issue of a part that is impaired and still usable."""
    return Issue(health=Health.DEGRADED, text=text)


def unhealthy(text: str, *, fatal: bool = False) -> Issue:
    """Return an issue of a part that must not be used."""
    return Issue(health=Health.UNHEALTHY, text=text, fatal=fatal)


def combine(check: str, issues: Iterable[Issue]) -> CheckResult:
    """Return one result with the text of all issues and the health of the worst."""
    found = list(issues)
    return CheckResult(
        check=check,
        health=max((i.health for i in found), key=_RANK.__getitem__, default=Health.HEALTHY),
        reason="; ".join(issue.text for issue in found),
        fatal=any(issue.fatal for issue in found),
    )


FindIssues = Callable[[Gpu, GpuHealth], Iterable[Issue]]


def check_each_gpu(check: str, view: MachineView, find_issues: FindIssues) -> CheckResult:
    """Return the issues of every GPU that can be read.

    Unreadable GPUs are left to the `gpu` check: if every check reported them, one fault would
    look like twenty.
    """
    try:
        gpus = view.gpus.list_gpus()
    except GpuError as error:
        return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not checked: {error}")
    issues: list[Issue] = []
    unread = ""
    for gpu in gpus:
        try:
            issues += find_issues(gpu, view.gpus.health(gpu))
        except GpuError as error:
            unread = f"GPU {gpu.index} not checked: {error}"
    if unread and not issues:
        return CheckResult(check=check, health=Health.UNKNOWN, reason=unread)
    return combine(check, issues)


GpuTest = Callable[[Gpu, Diagnostics], Iterator[Issue | str]]
"""Yields measurements as text, and faults as issues."""


def run_on_each_gpu(
    check: str,
    view: MachineView,
    test: GpuTest,
    compare: Callable[[], Iterable[Issue]] = tuple,
) -> CheckResult:
    """Run `test` on one idle GPU after the other and return its issues and measurements.

    A test that could not run is reported as such; it has not passed.
    """
    if view.diagnostics is None:
        return not_run(check, "this machine has no way to use its GPUs")
    issues: list[Issue] = []
    measurements: list[str] = []
    try:
        gpus = view.gpus.list_gpus()
        if used := in_use(view, gpus):
            return not_run(check, used)
        for gpu in gpus:
            try:
                for found in test(gpu, view.diagnostics):
                    if isinstance(found, str):
                        measurements.append(found)
                    else:
                        issues.append(found)
            except TestFailedError as error:
                issues.append(unhealthy(f"GPU {gpu.index} failed: {error}"))
    except (NotRunError, GpuError) as error:
        return not_run(check, str(error))
    if not gpus:
        return not_run(check, "there are no GPUs")
    result = combine(check, [*issues, *compare()])
    reason = "; ".join(filter(None, (result.reason, *measurements)))
    return CheckResult(check=check, health=result.health, reason=reason, fatal=result.fatal)


def in_use(view: MachineView, gpus: Sequence[Gpu]) -> str:
    """Return which GPU is in use, and by which processes; empty if all are idle."""
    for gpu in gpus:
        holders = view.gpus.health(gpu).holders
        if holders:
            pids = ", ".join(map(str, holders))
            return f"GPU {gpu.index} is in use by process {pids}"
    return ""


def not_run(check: str, why: str) -> CheckResult:
    """Return the result of a test that did not run: unknown, not healthy."""
    return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not run: {why}")
