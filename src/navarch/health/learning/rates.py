"""How often machines fail, and how well that is known."""

from dataclasses import dataclass
from math import log, sqrt

Z95 = 1.959964
"""A normal value lies within so many deviations 95 times in 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Failures in a thousand node-days, with the interval that holds the truth 19 times in 20."""

    failures: int
    node_days: float
    per_1000: float
    low: float
    high: float


def rate(failures: int, node_days: float) -> Rate:
    """Return the rate of `failures` over `node_days`.

    The interval is that of a count, by the approximation of Wilson and Hilferty to the Gamma
    distribution: within two percent. Without any time nothing is known, and it has no upper end.
    """
    if node_days <= 0:
        return Rate(failures=failures, node_days=0.0, per_1000=0.0, low=0.0, high=float("inf"))
    scale = 1000.0 / node_days
    return Rate(
        failures=failures,
        node_days=node_days,
        per_1000=failures * scale,
        low=_gamma_point(failures, -Z95) * scale if failures else 0.0,
        high=_gamma_point(failures + 1, Z95) * scale,
    )


def _gamma_point(shape: float, z: float) -> float:
    if shape == 1:
        return -log(0.975 if z < 0 else 0.025)
    return float(shape * max(1 - 1 / (9 * shape) + z / (3 * sqrt(shape)), 0.0) ** 3)
