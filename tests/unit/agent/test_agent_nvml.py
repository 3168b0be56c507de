"""NVML through a library that stands in for the driver's, and without any."""

import shutil
import subprocess
from pathlib import Path

import pytest

from navarch.clock.system import SystemClock
from navarch.gpus.nvml import NvmlGpus
from navarch.ports.gpu import GpuError, GpuLostError

STAND_IN = r"""
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Load;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
static int fails(const char *what) {
  const char *wanted = getenv("STAND_IN_FAILS");
  return wanted && !strcmp(wanted, what);
}
static int events = 0;
const char *nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "Unknown";
}
int nvmlInit_v2(void) { return fails("init") ? 18 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return fails("count") ? 999 : 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if (i == 1 && fails("lost")) return 15;
  *h = (void *)(0x7f0000000000UL + i); return 0;
}
static unsigned long index_of(void *h) { return (unsigned long)h - 0x7f0000000000UL; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
  snprintf(s, n, "GPU-%lu", index_of(h)); return 0;
}
int nvmlDeviceGetName(void *h, char *s, unsigned n) { snprintf(s, n, "NVIDIA H100"); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, Pci *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->bus_id, 32, "00000000:%02lX:00.0", index_of(h) + 1); return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, Memory *m) {
  m->total = 80ULL << 30; m->used = 3ULL << 30; m->free = 77ULL << 30; return 0;
}
int nvmlDeviceGetUtilizationRates(void *h, Load *l) { l->gpu = 97; l->memory = 3; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 350500; return fails("power") ? 3 : 0; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *t) {
  *t = 61; return fails("fell_off") ? 15 : 0;
}
int nvmlDeviceGetTemperatureThreshold(void *h, int kind, unsigned *t) {
  *t = 90; return kind == 1 ? 0 : 3;
}
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *n) {
  *n = kind == 1 && counter == 0 ? 2 : 77; return fails("ecc") ? 3 : 0;
}
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.1"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13020; return 0; }
int nvmlEventSetCreate(void **set) { *set = (void *)0x7e0000000000UL; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *h, unsigned long long types, void *set) {
  events += types == 8 && set == (void *)0x7e0000000000UL; return 0;
}
int nvmlEventSetWait_v2(void *set, Event *e, unsigned ms) {
  if (fails("flood")) { e->device = (void *)0x7f0000000000UL; e->type = 8; e->data = 94; return 0; }
  if (events == 0) return 10;
  e->device = (void *)(0x7f0000000000UL + --events); e->type = 8; e->data = 79; return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a stand-in with")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(STAND_IN)
    built = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", built, folder / "nvml.c"], check=True)
    return str(built)


def test_values_come_in_our_units(library: str) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)

    first, second = gpus.list_gpus()

    assert (second.index, second.uuid, second.name) == (1, "GPU-1", "NVIDIA H100")
    assert second.pci_bus_id == "00000000:02:00.0"
    assert second.memory_bytes == 80 << 30
    assert (second.driver_version, second.cuda_version) == ("580.1", "13.2")
    metrics = gpus.metrics(first)
    assert metrics.power_w == 350.5
    assert metrics.memory_used_bytes == float(3 << 30)
    assert (metrics.temperature_c, metrics.utilization_pct) == (61.0, 97.0)
    health = gpus.health(first)
    assert (health.slowdown_c, health.ecc_uncorrected) == (90.0, 2)
    gpus.close()
    gpus.close()


def test_xids_stay_until_they_are_settled(library: str) -> None:
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


def test_a_driver_that_floods_does_not_keep_us(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", "flood")

    assert len(gpus.events()) == 1000


@pytest.mark.parametrize(
    ("fault", "words"),
    [("init", "Driver/library version mismatch"), ("count", "nvmlDeviceGetCount_v2: Unknown")],
)
def test_a_driver_that_fails_says_why_and_is_asked_again(
    library: str, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", fault)
    with pytest.raises(GpuError, match=words):
        gpus.list_gpus()

    monkeypatch.delenv("STAND_IN_FAILS")
    assert len(gpus.list_gpus()) == 2


def test_a_lost_gpu_keeps_its_place_and_cannot_be_read(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = NvmlGpus(SystemClock(), library=library)
    monkeypatch.setenv("STAND_IN_FAILS", "lost")

    present, lost = gpus.list_gpus()

    assert gpus.metrics(present).power_w > 0
    with pytest.raises(GpuLostError):
        gpus.health(lost)


def test_a_gpu_lost_later_is_still_listed_under_its_own_name(
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
def test_what_a_card_does_not_tell_is_not_an_error(
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


def test_a_library_that_is_something_else_is_refused() -> None:
    gpus = NvmlGpus(SystemClock(), library="libc.so.6")

    with pytest.raises(GpuError, match="nvml"):
        gpus.list_gpus()
