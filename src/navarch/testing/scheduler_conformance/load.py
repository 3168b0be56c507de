"""A snapshot from whatever kind of file somebody has: a snapshot, a case, a file of cases."""

from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.snapshot.document import Field
from navarch.scheduler.snapshot.parse_cluster import parse_cluster
from navarch.scheduler.snapshot.snapshot import NO_TIME, Snapshot, parse_snapshot
from navarch.testing.scheduler_conformance.case import parse_case


def load_any(document: Field, case: str | None = None) -> Snapshot:
    """Return the one snapshot in `document`; of several cases, the one that `case` names.

    Raises:
        InvalidError: It is no such file, or does not say which case is meant.
    """
    if document.find("cases") is not None:
        return parse_case(_choose(document, case)).snapshot()
    if document.find("harness") is not None:
        return parse_case(document).snapshot()
    if document.find("nodes") is not None:
        return Snapshot(cluster=parse_cluster(document, NO_TIME), config=SchedulerConfig())
    return parse_snapshot(document)


def load_all(document: Field, case: str | None = None) -> dict[str, Snapshot]:
    """Return every snapshot in `document` by its case's id; the only one of a file has no name."""
    if document.find("cases") is None or case is not None:
        return {"": load_any(document, case)}
    cases = [parse_case(entry) for entry in document.get("cases").items()]
    return {case.id: case.snapshot() for case in cases}


def _choose(document: Field, case: str | None) -> Field:
    cases = document.get("cases")
    if case is None:
        if len(list(cases.items())) == 1:
            return next(cases.items())
        cases.refuse("there are several cases; say which by its id")
    exact = [entry for entry in cases.items() if entry.get("id").text() == case]
    matching = exact or [entry for entry in cases.items() if entry.get("id").text().endswith(case)]
    if len(matching) != 1:
        cases.refuse(f"{len(matching)} cases have an id that is or ends in {case!r}")
    return matching[0]
