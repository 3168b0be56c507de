"""Read all health values of one GPU from NVML at once."""

import ctypes
from collections.abc import Sequence
from typing import TypeVar

from navarch.gpus.nvml_library import (
    INSUFFICIENT_SIZE,
    NOT_SUPPORTED,
    OK,
    FabricInfo,
    FieldValue,
    Margin,
    NvmlLibrary,
    ProcessInfo,
    RemapHistogram,
    SramStatus,
    Utilization,
)
from navarch.ports.gpu import Fabric, GpuHealth, NvLink, SpareRows

S = TypeVar("S", bound=ctypes.Structure)

LINKS_MAX = 18
HOLDERS_MAX = 64

_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX = 0, 1, 2
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_CLOCK_SM = 1

# Fields of nvmlDeviceGetFieldValues
_MEMORY_TEMPERATURE = 82
_RECOVERY_ACTION = 230
_SOFTWARE_SLOWDOWN, _THERMAL_SLOWDOWN, _POWER_BRAKE = 269, 270, 271
_LINK_REPLAYS, _LINK_RECOVERIES, _LINK_CRC_ERRORS = 161, 162, 163
_CARD_FIELDS = (
    _MEMORY_TEMPERATURE,
    _RECOVERY_ACTION,
    _SOFTWARE_SLOWDOWN,
    _THERMAL_SLOWDOWN,
    _POWER_BRAKE,
)
_LINK_FIELDS = (_LINK_REPLAYS, _LINK_RECOVERIES, _LINK_CRC_ERRORS)


class CardReader:
    """Reads one GPU repeatedly, and remembers which readings it does not support.

    Speed matters: a machine has eight GPUs and is read every second. Results use preallocated
    buffers.
    """

    def __init__(self, nvml: NvmlLibrary, handle: ctypes.c_void_p) -> None:
        self._nvml = nvml
        self._handle = handle
        self._number = ctypes.c_uint()
        self._wide = ctypes.c_ulonglong()
        self._number_at = ctypes.byref(self._number)
        self._wide_at = ctypes.byref(self._wide)
        self._fields = _ask_for([(field, 0) for field in _CARD_FIELDS])
        self._holders = (ProcessInfo * HOLDERS_MAX)()
        self._without: set[tuple[object, ...]] = set()
        self._links: list[int] | None = None
        self._link_fields = _ask_for([])
        self._thresholds: dict[str, float | None] | None = None

    def read(self) -> GpuHealth:
        """Return the GPU's readings; raise GpuLostError if it is lost."""
        fields = self._read_fields(self._fields)
        limits = self._limits()
        margin = self._fill("nvmlDeviceGetMarginTemperature", _new(Margin, 1))
        load = self._fill("nvmlDeviceGetUtilizationRates", Utilization())
        sram = self._fill("nvmlDeviceGetSramEccErrorStatus", _new(SramStatus, 1))
        rows = self._fill("nvmlDeviceGetRowRemapperHistogram", RemapHistogram())
        fabric = self._fill("nvmlDeviceGetGpuFabricInfoV", _new(FabricInfo, 2))
        _, remapped, pending, failed = self._numbers("nvmlDeviceGetRemappedRows", 4)
        ecc_on, ecc_on_next = self._numbers("nvmlDeviceGetEccMode", 2)
        return GpuHealth(
            temperature_c=self._temperature(),
            slowdown_c=limits["slowdown"],
            shutdown_c=limits["shutdown"],
            memory_temperature_c=_float(fields[0]) if fields[0] else None,
            memory_max_c=limits["memory"],
            margin_c=None if margin is None else float(margin.degrees),
            utilization_pct=None if load is None else float(load.gpu),
            sm_clock_mhz=self._uint("nvmlDeviceGetClockInfo", _CLOCK_SM),
            clock_reasons=self._ulong("nvmlDeviceGetCurrentClocksEventReasons"),
            software_slowdown_ns=fields[2],
            thermal_slowdown_ns=fields[3],
            power_brake_ns=fields[4],
            power_w=_watts(self._uint("nvmlDeviceGetPowerUsage")),
            power_limit_w=_watts(self._uint("nvmlDeviceGetEnforcedPowerLimit")),
            power_default_w=limits["power"],
            ecc_uncorrected=self._ecc(_UNCORRECTED, _VOLATILE),
            ecc_corrected=self._ecc(_CORRECTED, _VOLATILE),
            ecc_uncorrected_ever=self._ecc(_UNCORRECTED, _AGGREGATE),
            ecc_corrected_ever=self._ecc(_CORRECTED, _AGGREGATE),
            ecc_on=_bool(ecc_on),
            ecc_on_next=_bool(ecc_on_next),
            sram_worn=None if sram is None else bool(sram.threshold_exceeded),
            rows_remapped=remapped,
            remap_pending=_bool(pending),
            remap_failed=_bool(failed),
            spare_rows=None
            if rows is None
            else SpareRows(
                full=rows.max, high=rows.high, partial=rows.partial, low=rows.low, none=rows.none
            ),
            pages_retired=self._pages_retired(),
            pages_pending=_bool(self._uint("nvmlDeviceGetRetiredPagesPendingStatus")),
            pcie_generation=self._uint("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_generation_max=self._uint("nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_width=self._uint("nvmlDeviceGetCurrPcieLinkWidth"),
            pcie_width_max=self._uint("nvmlDeviceGetMaxPcieLinkWidth"),
            pcie_replays=self._uint("nvmlDeviceGetPcieReplayCounter"),
            nvlinks=self._nvlinks(),
            fabric=None
            if fabric is None or fabric.state == 0
            else Fabric(state=fabric.state, status=fabric.status, health_mask=fabric.health_mask),
            persistent=_bool(self._uint("nvmlDeviceGetPersistenceMode")),
            recovery_action=fields[1],
            holders=self._held_by(),
        )

    def _has(self, function: str, *arguments: object) -> bool:
        """Read one value; a reading that the GPU does not support is not tried again."""
        numbers = tuple(word for word in arguments if isinstance(word, int))
        key: tuple[str | int, ...] = (function, *numbers)
        if key in self._without:
            return False
        status = self._nvml.attempt(function, self._handle, *arguments)
        if status == NOT_SUPPORTED:
            self._without.add(key)
        return status == OK

    def _uint(self, function: str, *arguments: object) -> int | None:
        return self._number.value if self._has(function, *arguments, self._number_at) else None

    def _ulong(self, function: str, *arguments: object) -> int | None:
        return self._wide.value if self._has(function, *arguments, self._wide_at) else None

    def _numbers(self, function: str, count: int) -> Sequence[int | None]:
        """Return several values that one function reads; each is None if it is unsupported."""
        found = [ctypes.c_uint() for _ in range(count)]
        known = self._has(function, *(ctypes.byref(number) for number in found))
        return [number.value if known else None for number in found]

    def _fill(self, function: str, structure: S) -> S | None:
        return structure if self._has(function, ctypes.byref(structure)) else None

    def _temperature(self) -> float | None:
        """Return the temperature. Every GPU supports it, so an error here is the GPU's."""
        known = self._nvml.try_call("nvmlDeviceGetTemperature", self._handle, 0, self._number_at)
        return float(self._number.value) if known else None

    def _ecc(self, kind: int, counter: int) -> int | None:
        return self._ulong("nvmlDeviceGetTotalEccErrors", kind, counter)

    def _limits(self) -> dict[str, float | None]:
        """Return the GPU's constant limits."""
        if self._thresholds is None:
            kinds = {"shutdown": _SHUTDOWN, "slowdown": _SLOWDOWN, "memory": _MEMORY_MAX}
            self._thresholds = {
                name: _float(self._uint("nvmlDeviceGetTemperatureThreshold", kind) or None)
                for name, kind in kinds.items()
            }
            self._thresholds["power"] = _watts(
                self._uint("nvmlDeviceGetPowerManagementDefaultLimit")
            )
        return self._thresholds

    def _pages_retired(self) -> int | None:
        """Return the number of retired pages, for either cause."""
        counts: list[int] = []
        for cause in (0, 1):
            key = ("nvmlDeviceGetRetiredPages", cause)
            if key in self._without:
                continue
            # Without a buffer for the pages, NVML returns "insufficient size" and the count, which
            # is all that is needed.
            self._number.value = 0
            status = self._nvml.attempt(key[0], self._handle, cause, self._number_at, None)
            if status == NOT_SUPPORTED:
                self._without.add(key)
            elif status in (OK, INSUFFICIENT_SIZE):
                counts.append(self._number.value)
        return sum(counts) if counts else None

    def _nvlinks(self) -> tuple[NvLink, ...]:
        if self._links is None:
            self._links = [i for i in range(LINKS_MAX) if self._link_state(i) is not None]
            self._link_fields = _ask_for([(f, i) for i in self._links for f in _LINK_FIELDS])
        if not self._links:
            return ()
        counts = self._read_fields(self._link_fields)
        return tuple(
            NvLink(
                index=index,
                active=bool(self._link_state(index)),
                replays=counts[3 * place] or 0,
                recoveries=counts[3 * place + 1] or 0,
                crc_errors=counts[3 * place + 2] or 0,
            )
            for place, index in enumerate(self._links)
        )

    def _link_state(self, index: int) -> int | None:
        status = self._nvml.attempt(
            "nvmlDeviceGetNvLinkState", self._handle, index, self._number_at
        )
        return self._number.value if status == OK else None

    def _held_by(self) -> tuple[int, ...]:
        self._number.value = HOLDERS_MAX
        known = self._has("nvmlDeviceGetComputeRunningProcesses_v3", self._number_at, self._holders)
        return tuple(self._holders[i].pid for i in range(self._number.value)) if known else ()

    def _read_fields(self, fields: "ctypes.Array[FieldValue]") -> Sequence[int | None]:
        count = len(fields)
        status = self._nvml.attempt("nvmlDeviceGetFieldValues", self._handle, count, fields)
        return [field.number() if status == OK else None for field in fields]


def _ask_for(wanted: Sequence[tuple[int, int]]) -> "ctypes.Array[FieldValue]":
    fields = (FieldValue * len(wanted))()
    for field, (name, scope) in zip(fields, wanted, strict=True):
        field.field, field.scope, field.status = name, scope, OK
    return fields


def _new(structure: type[S], version: int) -> S:
    """Return an empty structure with its version number in the first field."""
    return structure(version=ctypes.sizeof(structure) | version << 24)


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000.0


def _bool(value: int | None) -> bool | None:
    return None if value is None else bool(value)
