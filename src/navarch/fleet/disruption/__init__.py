"""Reasons to remove a node: one module for each. No other package creates a `Retire`.

`REASONS` lists them, the most pressing first.
"""

REASONS = (
    "spot_notice",  # The provider takes the machine back in minutes; its work leaves at once.
    "unhealthy",  # The hardware failed. The governor limits how many are acted on.
    "unregistered",  # The machine was bought, and its agent never registered.
    "misplaced",  # The machine stands in another network block than the rest of its gang.
    "surplus",  # The pool has more nodes than its size.
    "empty",  # The node had no work for a while, and the pool may be smaller.
    "maintenance",  # The provider announced work on the host. A successor serves first.
    "expired",  # The node is older than the pool allows. A successor serves first.
    "drifted",  # The pool would not buy this machine today. A successor serves first.
    "costly",  # The same GPUs cost much less elsewhere. A successor serves first.
)
