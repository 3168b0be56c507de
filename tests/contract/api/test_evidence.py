"""Evidence over the wire: from the agent's link to the operator's client."""

import asyncio
import hashlib
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from tests.support.local_api import build_local_api, serve_local_api

from navarch.agent.evidence import pack
from navarch.agent.transport import open_link
from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.agents import Link
from navarch.ports.evidence import EvidenceApi


def a_bundle(node: NodeId, *, lines: int = 1) -> Evidence:
    content = pack({"why": "XID 79", "kernel_log": ["NVRM: Xid"] * lines})
    note = EvidenceNote(
        id="evidence-1",
        node=node,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        why="XID 79",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )
    return Evidence(note=note, content=content)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_uploaded_evidence_can_be_read(wire: str) -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(), grpc=wire == "grpc") as local:
            node = await local.register("gpu-1")
            links = {"http": open_link, "grpc": lambda url: grpc_link(url, lambda: None)}
            link: Link = links[wire](local.grpc_url or local.http_url)
            evidence = a_bundle(node)
            await link.report_evidence(evidence)
            await link.report_evidence(evidence)
            with pytest.raises(InvalidError):
                await link.report_evidence(Evidence(note=evidence.note, content=b"forged"))
            await link.close()
            api = connect_fleet(local.http_url)
            assert isinstance(api, EvidenceApi)
            assert list(await api.list_evidence(node)) == [evidence.note]
            kept = await api.get_evidence(node, "evidence-1")
            assert (kept.note, kept.content) == (evidence.note, evidence.content)
            with pytest.raises(NotFoundError):
                await api.get_evidence(node, "evidence-2")
            with pytest.raises(NotFoundError):
                await api.list_evidence(NodeId("nobody"))
            await api.close()
            typed = await asyncio.to_thread(type_in, local.http_url, "gpu-1")
            assert "XID 79" in typed
            assert "NVRM: Xid" in typed
            listed = await asyncio.to_thread(type_in, local.http_url, "gpu-1", "--all")
            assert "evidence-1" in listed

    asyncio.run(main())


def type_in(server: str, *words: str) -> str:
    result = CliRunner().invoke(navarch, ["evidence", *words, "--server", server])
    assert result.exit_code == 0, result.output
    return result.stdout
