"""How long to wait after a failure."""

from navarch.ports.clock import Entropy

FIRST_S = 0.5
LONGEST_S = 30.0
"""Short enough that a fleet is back within a minute of its control plane; with the jitter below,
ten thousand agents then come at some 500 a second."""


class Backoff:
    """Pauses that grow with every failure in a row, each drawn by chance.

    Chance keeps agents that lost the control plane together from coming back together.
    """

    def __init__(
        self, entropy: Entropy, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S
    ) -> None:
        self._entropy = entropy
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def next_s(self) -> float:
        """Note a failure; return how many seconds to wait."""
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._entropy.uniform(ceiling / 3.0, ceiling)

    def reset(self) -> None:
        """Note a success."""
        self._failures = 0
