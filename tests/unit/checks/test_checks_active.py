"""Results of active checks from their figures, and without their tools."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from navarch.core.errors import InvalidError
from navarch.core.health import CheckResult, Health
from navarch.core.instance import Gpu
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.boot import BootCheck
from navarch.health.checks.diagnostics import (
    BandwidthCheck,
    BurnCheck,
    DcgmCheck,
    NcclCheck,
    PatternsCheck,
)
from navarch.health.checks.standard import active_checks, choose_active
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    HealthCheck,
    MachineView,
    NotRunError,
    PatternFigures,
    TestFailedError,
    ToolRun,
)
from navarch.sim.kernel.clock import SeededEntropy, SimClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BURN = BurnFigures(tflops=700.0, seconds=10.0, products=10, wrong=0)
PATTERN = PatternFigures(tested_bytes=126 << 30, patterns=5, wrong=0)
COPY = CopyFigures(to_device_gbs=55.0, from_device_gbs=54.0, on_device_gbs=4200.0)


@dataclass
class Bench:
    """Diagnostics that return the figures of a test case."""

    burns: dict[int, BurnFigures | Exception] = field(default_factory=dict)
    memory: dict[int, PatternFigures] = field(default_factory=dict)
    speeds: Sequence[CopyFigures] = (COPY, COPY)
    tools: dict[str, ToolRun] = field(default_factory=dict)
    touched: list[int] = field(default_factory=list)
    broken: Exception | None = None

    def touch(self, gpu: Gpu) -> None:
        self.touched.append(gpu.index)
        if self.broken is not None:
            raise self.broken

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        found = self.burns.get(gpu.index, replace(BURN, seconds=seconds))
        if isinstance(found, Exception):
            raise found
        return found

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        assert 0 < share < 1
        return self.memory.get(gpu.index, PATTERN)

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        return self.speeds[: len(gpus)]

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        del arguments, within_s
        if name not in self.tools:
            raise NotRunError(f"{name} is not installed")
        return self.tools[name]


def look(
    check: HealthCheck, bench: Bench | None, *, gpus: int = 2, in_use: bool = False
) -> CheckResult:
    reader = SimulatedGpus(SimClock(), SeededEntropy("gpus"), count=gpus, seed="m")
    if in_use:
        reader.work(812, clock_mhz=1980, power_w=650.0)
    view = MachineView(
        now=NOW,
        gpus=reader,
        host=SimulatedHost(SimClock(), SeededEntropy("host"), "m"),
        diagnostics=bench,
    )
    [result] = list(check.run(view))
    return result


@pytest.mark.parametrize("check", active_checks(), ids=lambda check: check.name)
def test_without_diagnostics_no_test_passes(check: HealthCheck) -> None:
    result = look(check, None)

    assert result.health is Health.UNKNOWN
    assert result.reason.startswith("not run: ")


@pytest.mark.parametrize(
    ("check", "tool"), [(DcgmCheck(), "dcgmi"), (NcclCheck(), "all_reduce_perf")]
)
def test_a_missing_tool_is_not_a_passed_test(check: HealthCheck, tool: str) -> None:
    result = look(check, Bench())

    assert (result.health, result.reason) == (
        Health.UNKNOWN,
        f"not run: {tool} is not installed",
    )


def test_a_burn_reports_its_figures_and_a_wrong_result_is_fatal() -> None:
    assert look(BurnCheck(), Bench()).reason == ("GPU 0: 700 TFLOP/s bf16; GPU 1: 700 TFLOP/s bf16")

    result = look(BurnCheck(), Bench(burns={1: replace(BURN, wrong=3)}))

    assert (result.health, result.fatal) == (Health.UNHEALTHY, True)
    assert "GPU 1 computed 3 wrong results" in result.reason


def test_a_gpu_far_slower_than_the_others_is_degraded() -> None:
    result = look(BurnCheck(), Bench(burns={0: replace(BURN, tflops=400.0)}))

    assert result.health is Health.DEGRADED
    assert "GPU 0 reaches 400 of 700 TFLOP/s" in result.reason


def test_a_gpu_that_fails_its_test_is_unhealthy_and_the_others_are_still_tested() -> None:
    result = look(BurnCheck(), Bench(burns={0: TestFailedError("illegal address")}))

    assert result.health is Health.UNHEALTHY
    assert result.reason == "GPU 0 failed: illegal address; GPU 1: 700 TFLOP/s bf16"


def test_memory_that_reads_back_wrong_is_fatal() -> None:
    bench = Bench(memory={0: replace(PATTERN, wrong=2, first_wrong=0x1F00)})

    result = look(PatternsCheck(), bench)

    assert (result.health, result.fatal) == (Health.UNHEALTHY, True)
    assert "2 memory words read back wrong, first at 0x1f00" in result.reason


def test_bandwidths_are_reported_and_compared() -> None:
    assert "4200 GB/s on the device" in look(BandwidthCheck(), Bench()).reason

    slow = Bench(speeds=(COPY, replace(COPY, to_device_gbs=12.0)))
    result = look(BandwidthCheck(), slow)

    assert result.health is Health.DEGRADED
    assert "GPU 1 moves 12 of 55 GB/s host to device" in result.reason


NVBANDWIDTH = """{
   "nvbandwidth" : {
      "CUDA Runtime Version" : 13000,
      "Driver Version" : "580.159.04",
      "git_version" : "v0.8",
      "testcases" : [
         {
            "bandwidth_description" : "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix" : [ [ "55.5", "%s" ] ],
            "name" : "host_to_device_memcpy_ce",
            "status" : "Passed",
            "sum" : 110.5
         },
         {
            "bandwidth_description" : "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix" : [ [ "N/A", "390.1" ], [ "10.2", "N/A" ] ],
            "name" : "device_to_device_memcpy_write_ce",
            "status" : "Passed",
            "sum" : 400.3
         },
         { "name" : "device_to_host_memcpy_ce", "status" : "Waived" }
      ],
      "version" : "v0.8"
   }
}"""


@dataclass
class Toolbox(Bench):
    """Diagnostics that run programs from a folder, as on a node."""

    folder: Path = Path()

    def install(self, name: str, output: str, code: int = 0) -> None:
        (self.folder / f"{name}.out").write_text(output)
        program = (
            f'#!/bin/sh\necho "$@" > {self.folder}/{name}.args\ncat {self.folder}/{name}.out\n'
        )
        (self.folder / name).write_text(f"{program}exit {code}\n")
        (self.folder / name).chmod(0o755)

    def arguments(self, name: str) -> str:
        return (self.folder / f"{name}.args").read_text().strip()

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        environ = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        return CudaDiagnostics(environ=environ).tool(name, *arguments, within_s=within_s)


def test_the_results_of_nvbandwidth_are_added(tmp_path: Path) -> None:
    bench = Toolbox(folder=tmp_path)
    bench.install("nvbandwidth", NVBANDWIDTH % "55.0")

    result = look(BandwidthCheck(), bench)

    assert result.health is Health.HEALTHY
    assert "nvbandwidth: host_to_device_memcpy_ce 110 GB/s, device_to_device" in result.reason
    assert bench.arguments("nvbandwidth").startswith("-j -t host_to_device_memcpy_ce ")


def test_a_gpu_that_nvbandwidth_finds_slow_is_named(tmp_path: Path) -> None:
    bench = Toolbox(folder=tmp_path)
    bench.install("nvbandwidth", NVBANDWIDTH % "12.5")

    result = look(BandwidthCheck(), bench)

    assert result.health is Health.DEGRADED
    slow = "GPU 1 reaches 12 of 56 GB/s in nvbandwidth's host_to_device_memcpy_ce"
    assert result.reason.startswith(slow), "between devices it is for the topology to say"


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        (None, 0, "nvbandwidth not run: nvbandwidth is not installed"),
        ("Segmentation fault", 139, "nvbandwidth did not finish: code 139"),
        ('{"nvbandwidth": {"error": "no GPUs"}}', 1, "nvbandwidth did not finish: no GPUs"),
    ],
)
def test_without_nvbandwidth_our_own_figures_stand_with_a_note(
    tmp_path: Path, output: str | None, code: int, words: str
) -> None:
    bench = Toolbox(folder=tmp_path)
    if output is not None:
        bench.install("nvbandwidth", output, code)

    result = look(BandwidthCheck(), bench)

    assert result.health is Health.HEALTHY
    assert result.reason.endswith(words)


ALL_REDUCE = "# Out of bounds values : {wrong} OK\n# Avg bus bandwidth    : 431.7\n"


def test_nccl_across_nodes_runs_under_mpi_with_a_process_per_gpu(
    tmp_path: Path,
) -> None:
    bench = Toolbox(folder=tmp_path)
    check = NcclCheck(peers=("10.0.0.2:8", "gpu-3:4"))
    assert look(check, bench).reason == "not run: mpirun is not installed"

    bench.install("mpirun", ALL_REDUCE.format(wrong=0))
    result = look(check, bench)

    assert (result.health, result.reason) == (
        Health.HEALTHY,
        "432 GB/s bus bandwidth among 3 nodes",
    )
    assert bench.arguments("mpirun") == (
        "--allow-run-as-root -np 14 -H localhost:2,10.0.0.2:8,gpu-3:4 "
        "all_reduce_perf -b 1G -e 1G -g 1"
    )
    bench.install("mpirun", ALL_REDUCE.format(wrong=3))
    assert look(check, bench).health is Health.UNHEALTHY


@pytest.mark.parametrize("peer", ["", "--help:8", "a b:8", "host", "host:0", "host:8;reboot"])
def test_a_peer_must_be_an_address_and_a_gpu_count(peer: str) -> None:
    with pytest.raises(InvalidError, match="HOST:GPUS"):
        NcclCheck(peers=(peer,))


DCGM = """
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
| software                  | Pass                                           |
| pcie                      | {pcie}                                           |
| memory                    | Skip - GPU is in use                           |
"""


def test_the_results_of_dcgm_are_reported() -> None:
    good = Bench(tools={"dcgmi": ToolRun(code=0, output=DCGM.format(pcie="Pass"))})
    bad = Bench(tools={"dcgmi": ToolRun(code=226, output=DCGM.format(pcie="Fail"))})
    sick = Bench(tools={"dcgmi": ToolRun(code=1, output="Error: unable to connect\n")})

    assert look(DcgmCheck(), good).reason == "2 tests passed"
    assert look(DcgmCheck(), bad).reason == "dcgmi diag failed: pcie"
    assert look(DcgmCheck(), sick).health is Health.UNKNOWN


@pytest.mark.parametrize("pcie", ["Pass", "Fail"])
def test_the_results_of_dcgm_carry_its_version(pcie: str) -> None:
    row = "| DCGM Version              | 3.3.5                                          |\n"
    output = DCGM.format(pcie=pcie)
    versioned = Bench(tools={"dcgmi": ToolRun(code=0, output=output + row)})
    assert look(DcgmCheck(), versioned).facts == {"check_version": "3.3.5"}
    unversioned = Bench(tools={"dcgmi": ToolRun(code=0, output=output)})
    assert look(DcgmCheck(), unversioned).facts == {}


def test_a_wrong_reduction_is_unhealthy_and_nccl_needs_two_gpus() -> None:
    output = "# Out of bounds values : {} OK\n# Avg bus bandwidth    : 473.2\n"
    good = Bench(tools={"all_reduce_perf": ToolRun(code=0, output=output.format(0))})
    bad = Bench(tools={"all_reduce_perf": ToolRun(code=0, output=output.format(4))})

    assert look(NcclCheck(), good).reason == "473 GB/s bus bandwidth"
    assert look(NcclCheck(), bad).health is Health.UNHEALTHY
    assert "only one GPU" in look(NcclCheck(), good, gpus=1).reason


def test_a_gpu_in_use_is_not_tested_and_nccl_counts_the_gpus_first() -> None:
    used = "not run: GPU 0 is in use by process 812"
    assert look(BurnCheck(), Bench(), in_use=True).reason == used
    assert look(NcclCheck(), Bench(), in_use=True).reason == used
    alone = look(NcclCheck(), Bench(), gpus=1, in_use=True)
    assert alone.reason == "not run: there is only one GPU to reduce over"
    assert alone.health is Health.UNKNOWN


def test_the_boot_check_touches_every_gpu_and_a_missing_cuda_is_no_fault() -> None:
    bench = Bench()
    assert look(BootCheck(), bench).health is Health.HEALTHY
    assert bench.touched == [0, 1]

    assert look(BootCheck(), Bench(broken=NotRunError("no CUDA"))).health is Health.HEALTHY
    result = look(BootCheck(), Bench(broken=TestFailedError("16 MiB read back wrong")))
    assert result.health is Health.UNHEALTHY
    assert "GPU 0 does not work: 16 MiB read back wrong" in result.reason


def test_tests_are_chosen_by_name() -> None:
    assert [check.name for check in choose_active(["nccl", "burn"])] == ["burn", "nccl"]
    assert len(choose_active(["all"])) == len(active_checks())
    with pytest.raises(InvalidError, match="no test called fire; there are burn, patterns"):
        choose_active(["fire"])
