"""The agent's program over gRPC."""

import asyncio
import sys
from pathlib import Path

from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.testing.doors import build_doors, open_doors


def test_an_agent_with_a_grpc_address_registers_and_reports(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_doors(build_doors(token="secret"), http=False) as doors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "navarch.cli", "agent", "--server", doors.grpc_url),
                *("--node-id", "gpu-7", "--simulated-gpus", "8", "--auth-token", "secret"),
                *("--state-dir", str(tmp_path)),
            )
            try:
                async with asyncio.timeout(60):
                    while NodeId("gpu-7") not in doors.store.fleet().nodes:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                    while not doors.store.fleet().nodes[NodeId("gpu-7")].report_number:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                detail = await doors.fleet.get_node(NodeId("gpu-7"))
                assert detail.node.status is NodeStatus.ACTIVE
                assert detail.node.gpus == 8
            finally:
                process.terminate()
                await process.wait()

    asyncio.run(main())
