"""Stock-outs: how long a refusal keeps every launch from asking again."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.kinds import DURATION
from navarch.config.schema import Fault, block, key
from navarch.core.refusal import Refusal

_ONCE = "the memory of refusals is set up once, when the server starts"


def _pauses_in_order(
    sold_out_first: timedelta,
    sold_out_longest: timedelta,
    fault_first: timedelta,
    fault_longest: timedelta,
    gang_first: timedelta,
    gang_longest: timedelta,
) -> Iterator[Fault]:
    pairs = {
        "sold_out": (sold_out_first, sold_out_longest),
        "fault": (fault_first, fault_longest),
        "gang": (gang_first, gang_longest),
    }
    for name, (first, longest) in pairs.items():
        if first > longest:
            yield Fault(
                at=(f"{name}_first",),
                message=f"{name}_first cannot exceed {name}_longest",
                remedy=f"make {name}_longest the longer of the two",
            )


@block(rules=(_pauses_in_order,))
class StockoutsConfig:
    """How long what refused is left alone, by every launch; then one may try."""

    sold_out_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=15),
        doc="after the first machine not to be had",
        restart=_ONCE,
    )
    sold_out_longest: timedelta = key(
        DURATION,
        default=timedelta(seconds=75),
        doc="after many in a row, if one launch waits; each doubles the pause up to this, and the "
        "more launches wait, the shorter it is",
        restart=_ONCE,
    )
    fault_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=5),
        doc="after three faults of the provider's in a row",
        restart=_ONCE,
    )
    fault_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=5),
        doc="after many in a row; each doubles the pause up to this",
        restart=_ONCE,
    )
    gang_first: timedelta = key(
        DURATION,
        default=timedelta(minutes=1),
        doc="for gangs of that size, after the first that was given up there",
        restart=_ONCE,
    )
    gang_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="after many in a row; each doubles the pause up to this",
        restart=_ONCE,
    )
    human: timedelta = key(
        DURATION,
        default=timedelta(minutes=15),
        doc="after a refusal that only a person can help: a quota, a key, a request that is wrong",
        restart=_ONCE,
    )


def to_spans(config: StockoutsConfig) -> Mapping[Refusal, tuple[timedelta, timedelta]]:
    """Return the first and the longest pause after each class of refusal."""
    return {
        Refusal.CAPACITY: (config.sold_out_first, config.sold_out_longest),
        Refusal.TRANSIENT: (config.fault_first, config.fault_longest),
        Refusal.BLOCK: (config.gang_first, config.gang_longest),
        Refusal.QUOTA: (config.human, config.human),
        Refusal.REGION_QUOTA: (config.human, config.human),
        Refusal.CREDENTIAL: (config.human, config.human),
        Refusal.REJECTED: (config.human, config.human),
    }
