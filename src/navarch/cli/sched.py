"""`navarch sched`: run the scheduler on a cluster in a file."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import click

from navarch.cli.commands import Entry, LazyGroup, entry

CLUSTERS, POLICIES = "Cluster files", "Policies"
_entry = partial(entry, extra="server")


class Sched(LazyGroup):
    """A group that imports its commands lazily."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "plan": _entry(
            "sched_cluster:plan",
            CLUSTERS,
            "Show the decisions, and which jobs stay pending.",
        ),
        "why": _entry(
            "sched_cluster:why",
            CLUSTERS,
            "Explain why jobs are pending, and what would help.",
        ),
        "replay": _entry(
            "sched_cluster:replay",
            CLUSTERS,
            "Print the decisions as JSON with a digest.",
        ),
        "snapshot": _entry("sched_cluster:snapshot", CLUSTERS, "Write a complete snapshot."),
        "conformance": _entry("sched_cluster:conformance", CLUSTERS, "Run a file of test cases."),
        "plugins": _entry("sched_cluster:plugins", POLICIES, "List plugins and extension points."),
    }


@click.group("sched", cls=Sched)
def sched() -> None:
    """Run the scheduler on a cluster in a file, without carrying anything out."""


if __name__ == "__main__":
    sched()
