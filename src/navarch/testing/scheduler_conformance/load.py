"""Loads a snapshot, a bare cluster, a case, or a file of cases as snapshots."""

from typing import Any

from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.snapshot.document import convert, reject
from navarch.scheduler.snapshot.snapshot import Snapshot, parse_cluster, parse_snapshot
from navarch.testing.scheduler_conformance.case import parse_case


def load_any(document: object, case: str | None = None) -> Snapshot:
    """Return the one snapshot in `document`; `case` selects one of several cases.

    Raises:
        InvalidError: The file is of no known kind, or has several cases and `case` selects none.
    """
    members = convert(document, dict[str, Any])
    if members.get("cases") is not None:
        return parse_case(*_choose(cases_in(document), case)).snapshot()
    if members.get("harness") is not None:
        return parse_case(document).snapshot()
    if members.get("nodes") is not None:
        return Snapshot(cluster=parse_cluster(document), config=SchedulerConfig())
    return parse_snapshot(document)


def load_all(document: object, case: str | None = None) -> dict[str, Snapshot]:
    """Return every snapshot in `document` by case id; a single snapshot has the id ''."""
    if case is not None or convert(document, dict[str, Any]).get("cases") is None:
        return {"": load_any(document, case)}
    cases = [parse_case(entry, path) for entry, path in cases_in(document)]
    return {case.id: case.snapshot() for case in cases}


def cases_in(document: object) -> list[tuple[dict[str, Any], str]]:
    """Return the cases of a file, each with its path.

    Raises:
        InvalidError: The file has no list of cases.
    """
    members = convert(document, dict[str, Any])
    if "cases" not in members:
        reject("", "cases is missing")
    entries = convert(members["cases"], list[dict[str, Any]], "cases")
    return [(entry, f"cases[{index}]") for index, entry in enumerate(entries)]


def _choose(
    cases: list[tuple[dict[str, Any], str]], case: str | None
) -> tuple[dict[str, Any], str]:
    if case is None:
        if len(cases) != 1:
            reject("cases", f"the file has {len(cases)} cases; pass the id of one of them")
        return cases[0]
    exact = [entry for entry in cases if str(entry[0].get("id")) == case]
    matching = exact or [entry for entry in cases if str(entry[0].get("id")).endswith(case)]
    if len(matching) != 1:
        reject("cases", f"{len(matching)} cases have an id that is or ends in {case!r}")
    return matching[0]
