"""What a placement policy is: an opinion on nodes, kept in a table that is cheap to keep true."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.stage import Numbers, Stage
from navarch.scheduler.packing.trace import Shape

NOWHERE: Final = -np.inf
"""The score of a node that cannot take the pod."""


class Policy(Protocol):
    """Scores nodes for pods; the highest score wins, ties go to the node listed first."""

    def score(self, node: int) -> Numbers:
        """Return one number per shape: how good it would be to put such a pod on the node.

        It may depend on that node's books only: it is asked again when they have changed.
        """
        ...

    def device(self, shape: int, node: int) -> int:
        """Return the GPU of the node that a pod which shares one is to get."""
        ...

    def arrived(self, shape: int) -> bool:
        """Take note of a pod before it is placed; true if all scores are to be asked for again."""
        ...

    def weigh(self, shape: int, scores: Numbers) -> Numbers:
        """Return the scores of all nodes for this pod, with what changes from pod to pod."""
        ...

    def placed(self, shape: int, node: int) -> None:
        """Take note that a pod went to the node."""
        ...


class ScoringPolicy:
    """The parts of a policy that most do not need to say."""

    def __init__(self, stage: Stage, books: Books, pods: list[int], seed: int) -> None:
        self.stage = stage
        self.books = books
        self.pods = pods
        """The pod list that arrivals were drawn from: for policies that are given a history."""
        self.seed = seed

    def device(self, shape: int, node: int) -> int:
        """Return the fullest GPU that has room."""
        return tightest(self.stage.shapes[shape], self.books.gpus[node])

    def arrived(self, shape: int) -> bool:
        """Learn nothing."""
        del shape
        return False

    def weigh(self, shape: int, scores: Numbers) -> Numbers:
        """Leave the scores as they are."""
        del shape
        return scores

    def placed(self, shape: int, node: int) -> None:
        """Keep no books of its own."""


def tightest(shape: Shape, left: list[int]) -> int:
    """Return the GPU with the least left that still holds the shape, the first of equals."""
    fitting = [index for index, milli in enumerate(left) if milli >= shape.gpu_milli]
    return min(fitting, key=left.__getitem__)


class ScoreTable:
    """Every policy's score of every node for every shape, up to date.

    A pod changes one node, so one column is asked for again; nodes in the same state are asked
    about once.
    """

    def __init__(self, books: Books, policy: Policy) -> None:
        self._books = books
        self._policy = policy
        self._scores = np.empty((len(books.stage.shapes), len(books.stage.machines)))
        self._closed: set[int] = set()
        """Shapes that fit nowhere. Nothing is ever given back, so they never will again."""
        self.rebuild()

    def rebuild(self) -> None:
        """Ask about all nodes."""
        known: dict[tuple[int, ...], int] = {}
        columns: list[Numbers] = []
        column_of: list[int] = []
        for node in range(len(self._books.stage.machines)):
            number = known.setdefault(self._books.state(node), len(columns))
            if number == len(columns):
                columns.append(self._column(node))
            column_of.append(number)
        self._scores[:] = np.array(columns).take(column_of, axis=0).T

    def refresh(self, node: int) -> None:
        """Ask about one node."""
        self._scores[:, node] = self._column(node)

    def best(self, shape: int) -> int | None:
        """Return the node for a pod of this shape, or nothing if no node can take it."""
        if shape in self._closed:
            return None
        scores = self._policy.weigh(shape, self._scores[shape])
        node = int(scores.argmax())
        if scores[node] == NOWHERE:
            self._closed.add(shape)
            return None
        return node

    def _column(self, node: int) -> Numbers:
        return np.where(self._books.fits(node), self._policy.score(node), NOWHERE)
