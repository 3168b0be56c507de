"""Evidence bundles: what is accepted, and the receipts that prove what was received."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from navarch.control.runtime.controller import retried
from navarch.core.access import caller
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import BY_HAND, Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.incident import CONTENT_BYTES_MAX, Evidence, EvidenceNote, inflated
from navarch.core.limits import REASON_LENGTH
from navarch.core.node import Node
from navarch.core.receipt import (
    GpuIdentity,
    KeptEvidence,
    Manifest,
    Receipt,
    SigningKey,
    key_id,
    write_manifest,
)
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Entropy
from navarch.ports.evidence import Archive, EvidenceKey, Signer
from navarch.ports.store import Store
from navarch.service.pace import ReportPace

BUNDLE_COST_S = 3.0
"""The part of a node's time that a bundle takes: it is inflated, and written beside the others."""
ID_LENGTH_MAX = 200
"""The longest name of a bundle: it is part of a URL and the name of a file."""
KEYS_MAX = 1000
"""The most keys of a cluster. They are never deleted, because they verify what they have signed."""


class EvidenceKeys:
    """The keys of the cluster: one signs, the others verify what they have signed."""

    def __init__(self, clock: Clock, entropy: Entropy, store: Store, signer: Signer) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._signer = signer

    @retried
    async def present(self) -> SigningKey:
        """Return the key that signs; the first call makes it."""
        found = self._signing()
        if found is not None:
            return found
        made = self._new_key(1)
        await self._write([made], made, "made for the first evidence bundle", {})
        return made

    def sign(self, key: SigningKey, manifest: bytes) -> bytes:
        """Return the signature of a manifest."""
        return self._signer.sign(bytes.fromhex(key.secret), manifest)

    async def list(self) -> Sequence[EvidenceKey]:
        """Return all keys, the present one first."""
        keys = self._store.fleet().signing_keys.values()
        return [self._shown(key) for key in sorted(keys, key=lambda x: x.number, reverse=True)]

    @retried
    async def rotate(self, reason: str) -> EvidenceKey:
        """Replace the present key, and delete its secret."""
        known = self._store.fleet().signing_keys
        if len(known) >= KEYS_MAX:
            raise NotPossibleError(f"the cluster has {KEYS_MAX} keys, which is the most")
        made = self._new_key(max((key.number for key in known.values()), default=0) + 1)
        retired = [
            evolve(key, secret="", retired_at=made.created_at)
            for key in known.values()
            if key.retired_at is None
        ]
        replaced = {"replaces": ", ".join(key.id for key in retired)} if retired else {}
        why = reason.strip() or "by hand"
        await self._write([*retired, made], made, why, {"by": BY_HAND, **replaced})
        return self._shown(made)

    def _signing(self) -> SigningKey | None:
        keys = self._store.fleet().signing_keys.values()
        return next((key for key in keys if key.retired_at is None), None)

    def _new_key(self, number: int) -> SigningKey:
        secret = self._entropy.secret()
        public = self._signer.public_of(secret)
        return SigningKey(
            id=key_id(public),
            number=number,
            public=public.hex(),
            secret=secret.hex(),
            created_at=self._clock.now(),
        )

    async def _write(
        self, keys: Sequence[SigningKey], made: SigningKey, why: str, facts: dict[str, str]
    ) -> None:
        event = Event(
            at=made.created_at,
            about=about("evidence-key", made.id),
            kind="evidence_key.created",
            reason=why,
            facts=facts,
        )
        change = Change(signing_keys=keys, events=[event])
        await self._store.commit(change, based_on=self._store.fleet().revision)

    def _shown(self, key: SigningKey) -> EvidenceKey:
        return EvidenceKey(
            id=key.id,
            pem=self._signer.to_pem(bytes.fromhex(key.public)),
            created_at=key.created_at,
            retired_at=key.retired_at,
        )


class EvidenceService:
    """Stores bundles of evidence with signed receipts, if their content matches their note."""

    def __init__(self, clock: Clock, store: Store, archive: Archive, keys: EvidenceKeys) -> None:
        """`keys` work on the whole store, also where `store` is limited to a scope."""
        self._clock = clock
        self._store = store
        self._archive = archive
        self._keys = keys
        self._pace = ReportPace(clock)

    async def report_evidence(self, evidence: Evidence) -> None:
        """Store a bundle, and sign what was received."""
        note = evidence.note
        node = self._store.fleet().nodes.get(note.node)
        if node is None:
            raise NotFoundError(f"no node {note.node}")
        _check(evidence)
        await self._pace.spend(note.node, BUNDLE_COST_S)
        inflated(evidence)
        if await self._has_already(note):
            return
        kept = KeptEvidence(
            note=replace(note, why=REASON_LENGTH.cut(note.why)),
            content=evidence.content,
            receipt=await self._receipt(evidence, node),
        )
        await self._archive.keep(kept)

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node, newest first, also of a node that is gone."""
        kept = await self._archive.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept

    async def get_evidence(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle."""
        return await self._archive.get(node, name)

    async def list_evidence_keys(self) -> Sequence[EvidenceKey]:
        """Return the keys of the cluster, the present one first."""
        return await self._keys.list()

    async def rotate_evidence_key(self, *, reason: str) -> EvidenceKey:
        """Sign with a new key from now on."""
        return await self._keys.rotate(reason)

    async def _has_already(self, note: EvidenceNote) -> bool:
        """Return whether a bundle was received before; raise if its name is that of another.

        What has a receipt is never written again: neither its content nor the time of receipt.
        """
        try:
            known = await self._archive.get(note.node, note.id)
        except NotFoundError:
            return False
        if known.note.sha256 != note.sha256:
            raise InvalidError(
                f"node {note.node} has sent another bundle named {note.id} before; a bundle that "
                "was received is never replaced"
            )
        return True

    async def _receipt(self, evidence: Evidence, node: Node) -> Receipt:
        key = await self._keys.present()
        inventory = await self._store.inventory(node.id)
        gpus = () if inventory is None else inventory.gpus
        note = evidence.note
        manifest = write_manifest(
            Manifest(
                evidence=note.id,
                sha256=note.sha256,
                size_bytes=len(evidence.content),
                taken_at=note.taken_at,
                received_at=self._clock.now(),
                cluster=self._store.cluster.id,
                node=node.id,
                provider=node.provider,
                instance=node.instance,
                gpus=tuple(
                    GpuIdentity(index=x.index, uuid=x.uuid, name=x.name, serial=x.serial)
                    for x in gpus
                ),
                uploaded_by=caller().subject,
                key=key.id,
            )
        )
        return Receipt(manifest=manifest, signature=self._keys.sign(key, manifest))


def _check(evidence: Evidence) -> None:
    note = evidence.note
    if not note.id or len(quote(note.id, safe="")) > ID_LENGTH_MAX:
        raise InvalidError(
            f"a bundle needs a unique name of at most {ID_LENGTH_MAX} characters, each that "
            "is not a letter, a digit or one of `_.-~` counted as it is written in a URL"
        )
    if len(evidence.content) > CONTENT_BYTES_MAX:
        raise InvalidError(f"a bundle may have at most {CONTENT_BYTES_MAX} bytes")
    if hashlib.sha256(evidence.content).hexdigest() != note.sha256:
        raise InvalidError("the content does not match the checksum of the bundle")
