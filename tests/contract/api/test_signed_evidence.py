"""Evidence that left the cluster is provably what the control plane received."""

import asyncio
import hashlib
import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from test_evidence import a_bundle
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.agent.transport import open_link
from navarch.cli.main import navarch
from navarch.core.access import Identity, acting_as
from navarch.core.errors import ConflictError, InvalidError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence
from navarch.core.receipt import Manifest, SigningKey, check_receipt, read_manifest, write_manifest
from navarch.core.records import evolve
from navarch.signatures import read_pem, verify
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.evidence import FolderArchive

AGENT = Identity(subject="join-token:gpu-1")


def typed(*words: str) -> Result:
    # A server that does not exist: what needs one fails.
    return CliRunner().invoke(navarch, [*words, "--server", "http://127.0.0.1:9"])


def run(story: Callable[[LocalApi, NodeId], Awaitable[None]]) -> None:
    async def main() -> None:
        local = build_local_api()
        with acting_as(AGENT):
            await story(local, await local.register("gpu-1", gpus=2))

    asyncio.run(main())


@dataclass(frozen=True, slots=True)
class Saved:
    """What a vendor receives: the three files, and the keys by another way."""

    folder: Path

    @property
    def bundle(self) -> Path:
        return self.folder / "evidence-1.json.gz"

    @property
    def manifest(self) -> Path:
        return self.folder / "evidence-1.manifest.json"

    @property
    def signature(self) -> Path:
        return self.folder / "evidence-1.manifest.sig"

    @property
    def keys(self) -> Path:
        return self.folder / "keys.pem"

    def check(self, *more: str) -> Result:
        return typed("evidence", "verify", str(self.bundle), "--keys", str(self.keys), *more)


async def save(folder: Path, bundle: Evidence | None = None, *, gpus: int = 2) -> Saved:
    """Let a node of a new cluster upload a bundle, save it, and return the files."""
    async with serve_local_api(build_local_api()) as local:
        node = await local.register("gpu-1", gpus=gpus)
        link = open_link(local.http_url)
        await link.report_evidence(bundle or a_bundle(node))
        await link.close()

        def type_in(*words: str) -> str:
            result = CliRunner().invoke(navarch, [*words, "--server", local.http_url])
            assert result.exit_code == 0, result.output
            return result.stdout

        where = str(folder)
        await asyncio.to_thread(type_in, "evidence", "save", node, "--to", where)
        keys = await asyncio.to_thread(type_in, "evidence", "keys")
        found = Saved(folder)
        found.keys.write_text(keys)
        online = await asyncio.to_thread(type_in, "evidence", "verify", str(found.bundle))
        assert "is unaltered" in online, "without --keys, the control plane is asked"
    return found


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return asyncio.run(save(tmp_path / "ours"))


def test_a_saved_bundle_is_verified_without_a_control_plane(saved: Saved) -> None:
    result = saved.check()
    assert result.exit_code == 0, result.output
    assert "is unaltered since the control plane received it" in result.stdout
    assert "GPU-gpu-1-1" in result.stdout
    manifest = json.loads(saved.check("-o", "json").stdout)
    assert manifest["node"] == "gpu-1"
    assert manifest["sha256"] == hashlib.sha256(saved.bundle.read_bytes()).hexdigest()
    assert manifest["uploaded_by"]
    assert saved.bundle.stat().st_mode & 0o077 == 0


def test_openssl_verifies_the_manifest_too(saved: Saved) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    command = [openssl, "pkeyutl", "-verify", "-pubin", "-rawin", "-inkey", str(saved.keys)]
    command += ["-in", str(saved.manifest), "-sigfile", str(saved.signature)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    saved.manifest.write_bytes(saved.manifest.read_bytes().replace(b"gpu-1", b"gpu-2"))
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_every_flipped_byte_is_found(saved: Saved) -> None:
    for file in (saved.bundle, saved.manifest, saved.signature):
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 16)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            result = saved.check()
            assert result.exit_code != 0, (file.name, place)
            assert "is not verified" in result.stderr, result.output
        file.write_bytes(whole)
    assert saved.check().exit_code == 0


def test_an_altered_bundle_is_named_with_both_hashes(saved: Saved) -> None:
    saved.bundle.write_bytes(b"forged")
    result = saved.check()
    assert "was changed since" in result.stderr.replace("\n", " ")
    assert hashlib.sha256(b"forged").hexdigest() in result.stderr


def test_the_keys_of_another_cluster_verify_nothing(saved: Saved, tmp_path: Path) -> None:
    other = asyncio.run(save(tmp_path / "theirs"))
    saved.keys.write_bytes(other.keys.read_bytes())
    result = saved.check()
    assert result.exit_code != 0
    assert "not among the given keys" in " ".join(result.stderr.split())


def test_a_manifest_that_names_a_known_key_without_its_signature_is_refused(saved: Saved) -> None:
    manifest = read_manifest(saved.manifest.read_bytes())
    saved.manifest.write_bytes(write_manifest(evolve(manifest, node=NodeId("gpu-9"))))
    assert "has not signed it" in " ".join(saved.check().stderr.split())


def test_the_manifest_of_another_bundle_of_the_cluster_is_refused() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        first, second = a_bundle(node), a_bundle(node, lines=2)
        second = replace(second, note=replace(second.note, id="evidence-2"))
        for bundle in (first, second):
            await local.evidence.report_evidence(bundle)
        kept = [await local.evidence.get_evidence(node, f"evidence-{n}") for n in (1, 2)]
        publics = [
            public
            for key in await local.evidence.list_evidence_keys()
            for public in read_pem(key.pem.encode())
        ]
        for mine, other in (kept, reversed(kept)):
            assert mine.receipt is not None
            assert other.receipt is not None
            check_receipt(mine.content, mine.receipt, publics, verify)
            with pytest.raises(InvalidError, match="not the one in the manifest"):
                check_receipt(mine.content, other.receipt, publics, verify)
            swapped = replace(mine.receipt, signature=other.receipt.signature)
            with pytest.raises(InvalidError, match="does not belong to the manifest"):
                check_receipt(mine.content, swapped, publics, verify)

    run(story)


def test_a_missing_manifest_is_named(saved: Saved) -> None:
    saved.manifest.unlink()
    result = saved.check()
    assert result.exit_code != 0
    assert "evidence-1.manifest.json is missing" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no key", "no public key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "cannot be read"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "private key"),
    ],
)
def test_a_file_without_public_keys_is_refused(saved: Saved, text: str, why: str) -> None:
    saved.keys.write_text(text)
    result = saved.check()
    assert result.exit_code != 0
    assert why in " ".join(result.stderr.split())


def test_what_a_node_sent_before_is_never_replaced() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        first = a_bundle(node)
        await local.evidence.report_evidence(first)
        before = await local.evidence.get_evidence(node, "evidence-1")
        await local.evidence.report_evidence(first)
        assert await local.evidence.get_evidence(node, "evidence-1") == before
        with pytest.raises(InvalidError, match="never replaced"):
            await local.evidence.report_evidence(a_bundle(node, lines=2))
        assert await local.evidence.get_evidence(node, "evidence-1") == before

    run(story)


def test_a_receipt_states_what_the_control_plane_knows_of_the_node() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        await local.evidence.report_evidence(a_bundle(node))
        receipt = (await local.evidence.get_evidence(node, "evidence-1")).receipt
        assert receipt is not None
        manifest: Manifest = read_manifest(receipt.manifest)
        assert manifest.uploaded_by == AGENT.subject
        assert manifest.cluster == local.store.cluster.id
        assert manifest.provider == "sim"
        assert [gpu.uuid for gpu in manifest.gpus] == ["GPU-gpu-1-0", "GPU-gpu-1-1"]
        assert manifest.taken_at == datetime(2026, 1, 1, tzinfo=UTC) < manifest.received_at

    run(story)


def test_after_a_rotation_old_signatures_are_verified_and_the_old_secret_is_gone() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        await local.evidence.report_evidence(a_bundle(node))
        old = await local.evidence.get_evidence(node, "evidence-1")
        made = await local.evidence.rotate_evidence_key(reason="an employee left")
        again = a_bundle(node)
        again = replace(again, note=replace(again.note, id="evidence-2"))
        await local.evidence.report_evidence(again)
        new = await local.evidence.get_evidence(node, "evidence-2")
        keys = await local.evidence.list_evidence_keys()
        publics = [public for key in keys for public in read_pem(key.pem.encode())]
        signers = []
        for kept in (new, old):
            assert kept.receipt is not None
            signers.append(check_receipt(kept.content, kept.receipt, publics, verify).key)
        assert signers == [key.id for key in keys]
        assert keys[0] == made
        assert keys[1].retired_at is not None
        secrets = [key.secret for key in local.store.fleet().signing_keys.values()]
        assert [bool(secret) for secret in sorted(secrets)] == [False, True]

    run(story)


def test_uploads_at_once_make_one_key() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        bundles = [a_bundle(node, lines=n + 1) for n in range(5)]
        named = [
            replace(x, note=replace(x.note, id=f"evidence-{n}")) for n, x in enumerate(bundles)
        ]
        await asyncio.gather(*map(local.evidence.report_evidence, named))
        assert len(local.store.fleet().signing_keys) == 1

    run(story)


def test_of_two_keys_that_are_made_at_once_one_is_refused() -> None:
    async def story(local: LocalApi, _node: NodeId) -> None:
        store, now = local.store, datetime(2026, 1, 1, tzinfo=UTC)
        before = store.fleet().revision
        first, second = (
            SigningKey(id=name, number=1, public=name, secret=name, created_at=now)
            for name in ("aa", "bb")
        )
        await store.commit(Change(signing_keys=[first]), based_on=before)
        with pytest.raises(ConflictError):
            await store.commit(Change(signing_keys=[second]), based_on=before)

    run(story)


def test_no_reply_and_no_text_shows_the_secret_of_a_key() -> None:
    async def story(local: LocalApi, node: NodeId) -> None:
        await local.evidence.report_evidence(a_bundle(node))
        (key,) = local.store.fleet().signing_keys.values()
        assert len(key.secret) == 64
        shown = msgspec.json.encode(await local.evidence.list_evidence_keys()).decode()
        events = await local.store.events()
        for text in (shown, repr(key), repr(events), repr(local.store.fleet())):
            assert key.secret not in text

    run(story)


def test_a_bundle_from_before_receipts_is_shown_and_saved_without_one(tmp_path: Path) -> None:
    async def main() -> str:
        folder = FolderArchive(tmp_path / "archive", InlineOffload())
        local = build_local_api(archive=folder)
        async with serve_local_api(local):
            node = await local.register("gpu-1")
            with acting_as(AGENT):
                await local.evidence.report_evidence(a_bundle(node))
            (file,) = (tmp_path / "archive").glob("*/*.json")
            stored = json.loads(file.read_text())
            del stored["receipt"]
            file.write_text(json.dumps(stored))
            words = ["evidence", "save", "gpu-1", "--to", str(tmp_path), "--server", local.http_url]
            result = await asyncio.to_thread(CliRunner().invoke, navarch, words)
            assert result.exit_code != 0
            return result.stderr

    assert "has no signature" in asyncio.run(main())
    assert (tmp_path / "evidence-1.json.gz").is_file()
    assert not (tmp_path / "evidence-1.manifest.json").exists()
