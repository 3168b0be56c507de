"""Tests that use GPUs: one after the other, on GPUs that nobody else uses."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.health.opinion import Opinion, conclude, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import Diagnostics, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

WEEKLY = timedelta(days=7)

Test = Callable[[Gpu, Diagnostics], Iterator[Opinion | str]]
"""Yields figures as words, and what is wrong as opinions."""


def try_each(
    check: str,
    view: MachineView,
    test: Test,
    compare: Callable[[], Iterable[Opinion]] = tuple,
) -> CheckResult:
    """Return what `test` found on every GPU, with its figures. What was not run did not pass."""
    if view.diagnostics is None:
        return not_run(check, "this machine has no way to use its GPUs")
    opinions: list[Opinion] = []
    figures: list[str] = []
    try:
        gpus = view.gpus.list_gpus()
        if used := in_use(view, gpus):
            return not_run(check, used)
        for gpu in gpus:
            try:
                for found in test(gpu, view.diagnostics):
                    if isinstance(found, str):
                        figures.append(found)
                    else:
                        opinions.append(found)
            except TestFailedError as error:
                opinions.append(unhealthy(f"GPU {gpu.index} failed: {error}"))
    except (NotRunError, GpuError) as error:
        return not_run(check, str(error))
    if not gpus:
        return not_run(check, "there are no GPUs")
    result = conclude(check, [*opinions, *compare()])
    words = "; ".join(filter(None, (result.reason, *figures)))
    return CheckResult(check=check, health=result.health, reason=words, fatal=result.fatal)


def in_use(view: MachineView, gpus: Sequence[Gpu]) -> str:
    """Return who uses a GPU now; nothing where nobody does."""
    for gpu in gpus:
        holders = view.gpus.health(gpu).holders
        if holders:
            pids = ", ".join(map(str, holders))
            return f"GPU {gpu.index} is in use by process {pids}"
    return ""


def not_run(check: str, why: str) -> CheckResult:
    """Return that a test was not made, which is not the same as that it passed."""
    return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not run: {why}")
