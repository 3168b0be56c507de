"""NVML through a fake library, and without one."""

from pathlib import Path

import pytest
from tests.support.nvml_stand_in import build_stand_in

from navarch.clock import SystemClock
from navarch.gpus.nvml import NvmlGpus
from navarch.ports.gpu import Fabric, GpuError, GpuLostError, SpareRows


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = build_stand_in(tmp_path_factory.mktemp("nvml"))
    if built is None:
        pytest.skip("there is no C compiler to make a stand-in with")
    return str(built)


def test_values_are_in_the_units_of_the_port(library: str) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)

    first, second = gpus.list_gpus()

    assert (second.index, second.uuid, second.name) == (1, "GPU-1", "NVIDIA H100")
    assert second.serial == "1650000001"
    assert second.pci_bus_id == "00000000:02:00.0"
    assert second.memory_bytes == 80 << 30
    assert (second.driver_version, second.cuda_version) == ("580.1", "13.2")
    metrics = gpus.metrics(first)
    assert metrics.power_w == 350.5
    assert metrics.memory_used_bytes == float(3 << 30)
    assert (metrics.temperature_c, metrics.utilization_pct) == (61.0, 97.0)
    health = gpus.health(first)
    assert (health.slowdown_c, health.ecc_uncorrected) == (90.0, 2)
    assert (health.shutdown_c, health.memory_max_c, health.margin_c) == (95.0, 95.0, 29.0)
    assert (health.power_w, health.power_limit_w) == (350.5, 700.0)
    assert health.memory_temperature_c == 58.0, "the upper half of a 32-bit field is rubbish"
    assert (health.ecc_corrected, health.ecc_uncorrected_ever) == (77, 77)
    assert (health.ecc_on, health.sram_worn, health.persistent) == (True, False, True)
    assert (health.rows_remapped, health.remap_pending, health.remap_failed) == (2, False, False)
    assert health.spare_rows == SpareRows(full=3070, high=2)
    assert (health.pcie_generation, health.pcie_width, health.pcie_replays) == (5, 16, 4)
    assert health.thermal_slowdown_ns == 270_000_000
    assert (health.recovery_action, health.holders) == (0, (4242,))
    assert health.fabric == Fabric(state=3, status=0, health_mask=0x1AA)
    assert [link.active for link in health.nvlinks] == [True] * 18
    assert health.nvlinks[5].replays == 15
    gpus.close()
    gpus.close()


def test_retired_pages_are_counted_without_a_buffer(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "pages")
    gpus = NvmlGpus(SystemClock(), library=library)

    assert gpus.health(gpus.list_gpus()[0]).pages_retired == 10


def test_xids_remain_until_they_are_settled(library: str) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)

    seen = gpus.events()

    assert [(event.number, event.gpu, event.code) for event in seen] == [
        (1, "GPU-1", 79),
        (2, "GPU-0", 79),
    ]
    assert gpus.events() == seen
    gpus.settle(1)
    assert [event.number for event in gpus.events()] == [2]
    gpus.close()


def test_a_flood_of_driver_events_does_not_block_the_reader(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", "flood")

    assert len(gpus.events()) == 1000


@pytest.mark.parametrize(
    ("fault", "words"),
    [("init", "Driver/library version mismatch"), ("count", "nvmlDeviceGetCount_v2: Unknown")],
)
def test_a_driver_error_has_its_reason_and_the_next_call_retries(
    library: str, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", fault)
    with pytest.raises(GpuError, match=words):
        gpus.list_gpus()

    monkeypatch.delenv("STAND_IN_FAILS")
    assert len(gpus.list_gpus()) == 2


def test_a_lost_gpu_keeps_its_index_and_cannot_be_read(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", "lost")

    present, lost = gpus.list_gpus()

    assert gpus.metrics(present).power_w > 0
    with pytest.raises(GpuLostError):
        gpus.health(lost)


def test_a_gpu_lost_later_is_still_listed_with_its_uuid(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    before = gpus.list_gpus()
    monkeypatch.setenv("STAND_IN_FAILS", "lost")

    assert gpus.list_gpus() == before


def test_a_gpu_that_falls_off_later_is_lost(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    gpu, _ = gpus.list_gpus()
    monkeypatch.setenv("STAND_IN_FAILS", "fell_off")

    with pytest.raises(GpuLostError, match="GPU is lost"):
        gpus.health(gpu)


@pytest.mark.parametrize("fault", ["power", "ecc"])
def test_an_unsupported_reading_is_not_an_error(
    library: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    gpu, _ = gpus.list_gpus()
    monkeypatch.setenv("STAND_IN_FAILS", fault)

    assert gpus.metrics(gpu).temperature_c == 61.0
    assert gpus.health(gpu).temperature_c == 61.0
    assert (gpus.health(gpu).ecc_uncorrected is None) == (fault == "ecc")


def test_without_a_library_there_is_no_driver_and_no_gpu(tmp_path: Path) -> None:
    gpus = NvmlGpus(SystemClock(), library=str(tmp_path / "libnvidia-ml.so.1"))

    with pytest.raises(GpuError, match="no NVIDIA driver"):
        gpus.list_gpus()
    with pytest.raises(GpuError, match="no NVIDIA driver"):
        gpus.events()
    gpus.close()


def test_a_library_that_is_not_nvml_is_refused() -> None:
    gpus = NvmlGpus(SystemClock(), library="libc.so.6")

    with pytest.raises(GpuError, match="nvml"):
        gpus.list_gpus()


def test_a_gpu_without_a_serial_number_is_listed(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "serial")
    gpus = NvmlGpus(SystemClock(), library=library)

    assert [gpu.serial for gpu in gpus.list_gpus()] == ["", ""]
