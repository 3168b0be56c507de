"""Limits on sizes, the same for the configuration file, every API and the stored state."""

from typing import Final

NODES_PER_POOL_MAX: Final = 100_000
"""The largest size, minimum or maximum of one pool, in nodes.

The planner visits each node that a pool lacks, so its time and memory grow with the size. A larger
fleet takes several pools.
"""

TASKS_PER_JOB_MAX: Final = 10_000
"""The most tasks of one job. The scheduler visits each of them in every cycle."""

PAUSED: Final = "paused: "
"""The prefix of the note of a pool above the limit; nothing is planned for such a pool."""
