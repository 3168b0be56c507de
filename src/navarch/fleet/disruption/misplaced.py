"""Members of a gang in another network block than the rest."""

from collections import Counter
from collections.abc import Sequence

from navarch.core.launch import Gang
from navarch.core.node import Node
from navarch.fleet.plan import Retire


def misplaced(gang: Gang, members: Sequence[Node]) -> list[Retire]:
    """Return the removal of every member outside the block that holds most of them."""
    block_of = {x.id: x.topology.block for x in members if x.topology and x.topology.block}
    blocks = Counter(block_of.values())
    if len(blocks) < 2:
        return []
    home = min(blocks, key=lambda block: (-blocks[block], block))
    return [
        Retire(node=name, reason=f"is in block {block}, away from the rest of {gang.id}")
        for name, block in block_of.items()
        if block != home
    ]
