"""`navarch sched`: run the scheduler on a file and see what it decides."""

from collections.abc import Mapping
from typing import ClassVar

import click

from navarch.cli.commands import Entry, LazyGroup

CLUSTERS, POLICIES = "A cluster in a file", "Policies"


def _entry(place: str, section: str, text: str) -> Entry:
    module, _, name = place.partition(":")
    return Entry(
        module=f"navarch.cli.{module}", attribute=name, help=text, section=section, extra="server"
    )


class Sched(LazyGroup):
    """Commands that are loaded when they are run: packing needs little of what others do."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "plan": _entry("sched_cluster:plan", CLUSTERS, "What would happen, and who would wait."),
        "why": _entry("sched_cluster:why", CLUSTERS, "Why jobs wait, and what would help."),
        "replay": _entry("sched_cluster:replay", CLUSTERS, "The decisions, with a digest."),
        "snapshot": _entry("sched_cluster:snapshot", CLUSTERS, "Write a complete snapshot."),
        "conformance": _entry("sched_cluster:conformance", CLUSTERS, "Run a file of cases."),
        "plugins": _entry("sched_cluster:plugins", POLICIES, "Plugins and extension points."),
        "pack": _entry("sched_pack:pack", POLICIES, "How full a policy gets a cluster."),
    }


@click.group("sched", cls=Sched)
def sched() -> None:
    """Schedule a cluster that is in a file; nothing is carried out."""


if __name__ == "__main__":
    sched()
