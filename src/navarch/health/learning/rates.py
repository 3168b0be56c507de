"""Failure rates with confidence intervals."""

from dataclasses import dataclass
from math import log, sqrt

Z95 = 1.959964
"""The 97.5th percentile of the normal distribution: 95 % lie within this many deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Failures per 1,000 node-days, with a 95 % confidence interval."""

    failures: int
    node_days: float
    per_1000: float
    low: float
    high: float


def rate(failures: int, node_days: float) -> Rate:
    """Return the rate of `failures` over `node_days`.

    The interval is that of a Poisson count, by the Wilson-Hilferty approximation of the Gamma
    distribution, which is exact to two percent. Without exposure it has no upper end.
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
