"""What every endpoint that sets a number of nodes checks."""

from navarch.core.errors import InvalidError
from navarch.core.limits import NODES_PER_POOL_MAX


def check_nodes(field: str, nodes: int) -> None:
    """Raise InvalidError, naming the field, if `nodes` are more than one pool may have."""
    if nodes > NODES_PER_POOL_MAX:
        raise InvalidError(
            f"{field}: {nodes} is above the limit of {NODES_PER_POOL_MAX} nodes per pool; "
            f"ask for {NODES_PER_POOL_MAX} or fewer, or use several pools"
        )
