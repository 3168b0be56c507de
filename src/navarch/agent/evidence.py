"""Evidence bundles: the machine's state at the time of a finding, before any remediation."""

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.incident import CONTENT_BYTES_MAX, Evidence, EvidenceNote, inflated
from navarch.ports.clock import Clock, Entropy
from navarch.ports.evidence import MachineFacts
from navarch.ports.gpu import GpuError, GpuReader

FORMAT = 1
REPEAT_AFTER = timedelta(minutes=10)
"""The least time between two bundles of one check, if it recovered or the event recurred."""
PLAIN_BYTES_MAX = 1_900_000
"""Keeps an unpacked bundle below two megabytes."""


@dataclass(slots=True)
class EvidenceCollector:
    """Collects bundles. Each part is read separately; a part that fails contains its error."""

    clock: Clock
    entropy: Entropy
    gpus: GpuReader
    facts: MachineFacts
    boot_id: str
    _collected_at: dict[str, float] = field(default_factory=dict)
    _unresolved: set[str] = field(default_factory=set)

    def select(self, results: Sequence[CheckResult]) -> list[CheckResult]:
        """Return those of `results` that need a new bundle.

        A failure that persists since its last bundle needs none: more bundles would push the
        first one out of the queue.
        """
        now = self.clock.monotonic()
        again_s = REPEAT_AFTER.total_seconds()
        bad = [result for result in results if result.health is Health.UNHEALTHY]
        self._unresolved -= {result.check for result in results} - {result.check for result in bad}
        return [
            result
            for result in bad
            if (result.lasting or result.check not in self._unresolved)
            and now - self._collected_at.get(result.check, float("-inf")) >= again_s
        ]

    def collect(self, node: NodeId, why: str, results: Sequence[CheckResult]) -> Evidence:
        """Return a bundle; blocks. Driver readings come last because they may hang."""
        taken_at = self.clock.now()
        self._collected_at.update({result.check: self.clock.monotonic() for result in results})
        self._unresolved |= {result.check for result in results}
        parts: dict[str, Any] = {
            "navarch_evidence": FORMAT,
            "node": node,
            "boot_id": self.boot_id,
            "taken_at": taken_at,
            "why": why,
            "findings": results,
            "versions": self.facts.versions(),
            "pcie": self.facts.pcie(),
            "processes": self.facts.processes(),
            "kernel_log": list(self.facts.kernel_log()),
            "gpus": self._gpu_readings(),
        }
        content = pack(parts)
        note = EvidenceNote(
            id=self.entropy.new_id("evidence"),
            node=node,
            taken_at=taken_at,
            why=why[:500],
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
        )
        return Evidence(note=note, content=content)

    def _gpu_readings(self) -> list[dict[str, Any]]:
        try:
            gpus = self.gpus.list_gpus()
        except GpuError as error:
            return [{"trouble": str(error)}]
        snapshot = []
        for gpu in gpus:
            facts: dict[str, Any] = {"gpu": gpu}
            try:
                facts |= {"health": self.gpus.health(gpu), "metrics": self.gpus.metrics(gpu)}
            except GpuError as error:
                facts["trouble"] = str(error)
            snapshot.append(facts)
        return snapshot


def pack(parts: dict[str, Any]) -> bytes:
    """Return a bundle's content, without the oldest log lines if it is too large."""
    while True:
        plain = msgspec.json.encode(parts)
        # mtime=0 makes the bytes, and so the hash, reproducible.
        content = gzip.compress(plain, mtime=0)
        log = parts["kernel_log"]
        small = len(plain) <= PLAIN_BYTES_MAX and len(content) <= CONTENT_BYTES_MAX
        if small or not log:
            return content
        left_out = parts.get("kernel_log_left_out", 0) + (len(log) + 1) // 2
        parts = {**parts, "kernel_log": log[(len(log) + 1) // 2 :], "kernel_log_left_out": left_out}


def unpack(evidence: Evidence) -> Mapping[str, Any]:
    """Return the parts of a bundle."""
    return msgspec.json.decode(inflated(evidence), type=dict[str, Any])
