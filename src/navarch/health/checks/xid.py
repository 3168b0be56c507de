"""Report the XIDs and SXids of the driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from navarch.core.health import SEVERITY, CheckResult, Health
from navarch.health.kernel_faults import MEANINGS, KernelFault, is_kernel_fault
from navarch.health.xid.assessment import Assessment, assess
from navarch.health.xid.catalogue import Action, Kind, driver_branch, kind_of
from navarch.ports.checks import EventSource, MachineView
from navarch.ports.gpu import GpuError, GpuEvent

CONTEXT_SWITCH = 109
"""Context switch timeouts have harmless causes, such as a long kernel or a debugger, so only a
repeated one is acted on. If the driver requires a reset, `recovery` and XID 154 report it at
once."""
REPEATED_WITHIN = timedelta(hours=24)
ONE_CRASH = timedelta(seconds=1)
"""Errors on one GPU within this time are attributed to the same process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidCheck:
    """Reports every XID as a lasting result, which a later healthy round does not clear.

    `navarch.health.xid` holds the catalogue of their meanings.
    """

    name: str = "xid"
    interval: timedelta | None = timedelta(seconds=1)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Report the events since the last settled round."""
        yield CheckResult(check=self.name, health=Health.HEALTHY)
        yield from map(self._source_result, view.sources)
        every = view.gpus.events()
        events = _with_processes([event for event in every if not is_kernel_fault(event.code)])
        faults = [event for event in every if is_kernel_fault(event.code)]
        try:
            listed = view.gpus.list_gpus() if every else ()
        except GpuError:
            listed = ()
        names = {gpu.uuid: f"GPU {gpu.index}" for gpu in listed}
        yield from _kernel_results(faults, names)
        branch = driver_branch(listed[0].driver_version) if listed else None
        together: dict[str, list[tuple[GpuEvent, Assessment]]] = {}
        for event in events:
            assessment = assess_xid(event.code, event.text, branch=branch)
            subject = f"{self.name}/{event.code}/{event.gpu}"
            if assessment.health is Health.HEALTHY and event.pid is not None:
                # Crashes of two processes are separate incidents. They leave no condition on the
                # node, so the names do not accumulate.
                subject += f"/{event.pid}"
            together.setdefault(subject, []).append((event, assessment))
        for subject, alike in together.items():
            # The most severe event; of several, the latest.
            event, assessment = max(reversed(alike), key=lambda pair: SEVERITY[pair[1].health])
            if event.code == CONTEXT_SWITCH and not _is_repeated([e for e, _ in alike], view):
                assessment = replace(assessment, fatal=False, health=Health.DEGRADED)
            where = names.get(event.gpu, event.gpu)
            details = describe_xid(assessment, event.text)
            yield CheckResult(
                check=subject,
                health=assessment.health,
                reason=f"{label(event.code)} on {where}{_again(alike)}: {details}",
                fatal=assessment.fatal,
                lasting=True,
                action=str(assessment.action),
                facts=_facts(event, assessment, where, len(alike)),
            )

    def _source_result(self, source: EventSource) -> CheckResult:
        """Return whether a source reports the errors that other sources see.

        A silent source does not mean a broken GPU: the other sources still report its errors.
        """
        missed = f"{source.name} missed the last {source.missed_in_a_row} errors"
        silence = f"{missed} that other sources saw; " if source.silent else ""
        return CheckResult(
            check=f"{self.name}-source/{source.name}",
            health=Health.DEGRADED if source.silent else Health.HEALTHY,
            reason=silence + describe_source(source),
        )


def _kernel_results(events: Sequence[GpuEvent], names: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield one lasting result for each kind of fault of each device."""
    alike: dict[str, list[GpuEvent]] = {}
    for event in events:
        alike.setdefault(f"kernel/{KernelFault(event.code).title}/{event.gpu}", []).append(event)
    for check, found in alike.items():
        last = found[-1]
        means = MEANINGS[KernelFault(last.code)]
        where = names.get(last.gpu, last.gpu)
        yield CheckResult(
            check=check,
            health=means.health if last.gpu in names else means.elsewhere,
            reason=f"{where}: {means.meaning}{_again(found)}: {last.text}",
            lasting=True,
            action=str(means.action),
            facts={
                "gpu": last.gpu if last.gpu in names else "",
                "pci": last.pci,
                "text": last.text,
                "at": last.at.isoformat(),
                "times": str(len(found)),
            },
        )


def _again(alike: Sequence[object]) -> str:
    """Return how often something happened, if more than once."""
    return f" ({len(alike)} times)" if len(alike) > 1 else ""


def describe_source(source: EventSource) -> str:
    """Return how many errors a source has seen and missed, for operators."""
    seen = f"{source.events} errors in {source.lines} messages, {source.missed} missed"
    return f"{seen}, overrun {source.overrun} times" if source.overrun else seen


def _is_repeated(events: Sequence[GpuEvent], view: MachineView) -> bool:
    """Return whether the same error was seen before within a day.

    The event's number serves as the counter, since it rises with every event.
    """
    counter = f"xid/{events[0].code}/{events[0].gpu}"
    return any(
        view.history.rise(counter, event.number, at=event.at, within=REPEATED_WITHIN) > 0
        for event in events
    )


def assess_xid(code: int, text: str = "", *, branch: int | None = None) -> Assessment:
    """Return the assessment of an XID on a GPU, or of an SXid on a switch."""
    return assess(kind_of(code), code, text, branch=branch)


def label(code: int) -> str:
    """Return a code with its kind: `XID 79`, `SXid 12028`."""
    return f"{kind_of(code).label} {code}"


def describe_xid(assessment: Assessment, text: str) -> str:
    """Return what happened and the action it needs, as one clause."""
    happened = text or assessment.entry.meaning
    wanted = "" if assessment.action is Action.NONE else f"; {assessment.action.words}"
    return f"{happened}{wanted}"


def _with_processes(events: Sequence[GpuEvent]) -> list[GpuEvent]:
    """Return `events`, with missing processes filled in from events right next to them.

    A stack overflow prints two lines without a process and one with it.
    """
    named = [event for event in events if event.pid is not None]
    filled: list[GpuEvent] = []
    for event in events:
        near: list[GpuEvent] = []
        if event.pid is None and kind_of(event.code) is Kind.XID:
            near = [
                other
                for other in named
                if other.gpu == event.gpu and abs(other.at - event.at) <= ONE_CRASH
            ]
        if near:
            nearest = min(near, key=lambda other: (abs(other.at - event.at), other.number))
            filled.append(replace(event, pid=nearest.pid, process=nearest.process))
        else:
            filled.append(event)
    return filled


def _facts(event: GpuEvent, assessment: Assessment, where: str, times: int) -> dict[str, str]:
    """Return the facts for policies and incidents; unknown ones are omitted."""
    known = {
        "code": str(event.code),
        "kind": str(kind_of(event.code)),
        "class": str(assessment.entry.origin),
        "gpu": event.gpu,
        "gpu_index": where.removeprefix("GPU ") if where != event.gpu else "",
        "text": event.text,
        "at": event.at.isoformat(),
        "pid": "" if event.pid is None else str(event.pid),
        "process": event.process,
        "pci": event.pci,
        "sources": ",".join(event.sources),
        "times": str(times) if times > 1 else "",
    }
    return {name: value for name, value in known.items() if value}
