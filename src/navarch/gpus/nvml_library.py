"""The NVML library: loading, structures, and error translation."""

import ctypes
import os
from collections.abc import Callable

from navarch.ports.gpu import GpuError, GpuLostError

LIBRARY = "libnvidia-ml.so.1"

OK, NOT_SUPPORTED, INSUFFICIENT_SIZE, TIMEOUT, LOST = 0, 3, 7, 10, 15
_SAYS_NOTHING = frozenset({NOT_SUPPORTED, TIMEOUT})
_CANNOT_TELL = frozenset(
    {
        *(1, 2, 4, 6, 7, 8, 13, 25),
        # uninitialized, invalid argument, no permission, not found, insufficient size,
        # insufficient power, function not found, argument version mismatch
        *(NOT_SUPPORTED, TIMEOUT, 999),
    }
)
"""Codes that mean a reading is unsupported, not that the GPU is faulty."""


class PciInfo(ctypes.Structure):
    """`nvmlPciInfo_t`."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class MemoryInfo(ctypes.Structure):
    """`nvmlMemory_t`, in bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Utilization(ctypes.Structure):
    """`nvmlUtilization_t`, in percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Event(ctypes.Structure):
    """`nvmlEventData_t`."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class FieldValue(ctypes.Structure):
    """`nvmlFieldValue_t`; `type` selects the member of the union."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )

    def number(self) -> int | None:
        """Return the value, if the GPU gave one. Fields of type double are not requested."""
        if self.status != OK:
            return None
        value = int(self.value)
        # 32-bit values leave the upper half of the union unchanged.
        return value & 0xFFFF_FFFF if self.type in (1, 5) else value


class RemapHistogram(ctypes.Structure):
    """`nvmlRowRemapperHistogramValues_t`."""

    _fields_ = tuple((name, ctypes.c_uint) for name in ("max", "high", "partial", "low", "none"))


class SramStatus(ctypes.Structure):
    """`nvmlEccSramErrorStatus_v1_t`."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("counts", ctypes.c_ulonglong * 11),
        ("threshold_exceeded", ctypes.c_uint),
    )


class FabricInfo(ctypes.Structure):
    """`nvmlGpuFabricInfo_v2_t`."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
        ("health_mask", ctypes.c_uint),
    )


class Margin(ctypes.Structure):
    """`nvmlMarginTemperature_v1_t`."""

    _fields_ = (("version", ctypes.c_uint), ("degrees", ctypes.c_int))


class ProcessInfo(ctypes.Structure):
    """`nvmlProcessInfo_t`."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlLibrary:
    """The library, initialised on first use and again after a failure."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or os.environ.get("NAVARCH_NVML_LIBRARY") or LIBRARY
        self._nvml: ctypes.CDLL | None = None
        self._absent: set[str] = set()

    @property
    def loaded(self) -> bool:
        """Whether the library is initialised."""
        return self._nvml is not None

    def call(self, function: str, *arguments: object) -> None:
        """Call a function that must succeed."""
        self._check(function, self.status(function, *arguments))

    def try_call(self, function: str, *arguments: object) -> bool:
        """Call a function that a GPU may not support; return whether it succeeded."""
        status = self.status(function, *arguments)
        if status in _SAYS_NOTHING:
            return False
        self._check(function, status)
        return True

    def attempt(self, function: str, *arguments: object) -> int:
        """Read one value and return NVML's status; raise only for a faulty GPU.

        Older and newer drivers lack functions or expect other arguments. One missing reading must
        not hide the others.
        """
        if function in self._absent:
            return NOT_SUPPORTED
        try:
            status = self.status(function, *arguments)
        except GpuError:
            self._absent.add(function)
            return NOT_SUPPORTED
        if status != OK and status not in _CANNOT_TELL:
            self._check(function, status)
        return status

    def status(self, function: str, *arguments: object) -> int:
        """Call a function and return NVML's status."""
        try:
            called: Callable[..., int] = getattr(self._library(), function)
        except AttributeError as error:
            raise GpuError(f"{self._name} has no {function}") from error
        return called(*arguments)

    def close(self) -> None:
        """Shut the library down."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None

    def _check(self, function: str, status: int) -> None:
        if status == OK:
            return
        words = _words(self._library(), status)
        if status == LOST:
            raise GpuLostError(words)
        raise GpuError(f"{function}: {words}")

    def _library(self) -> ctypes.CDLL:
        if self._nvml is not None:
            return self._nvml
        try:
            nvml = ctypes.CDLL(self._name)
        except OSError as error:
            raise GpuError(f"no NVIDIA driver: {error}") from error
        try:
            nvml.nvmlErrorString.restype = ctypes.c_char_p
            status = nvml.nvmlInit_v2()
        except AttributeError as error:
            raise GpuError(f"{self._name} is not nvml: {error}") from error
        if status != OK:
            raise GpuError(f"nvmlInit_v2: {_words(nvml, status)}")
        self._nvml = nvml
        return nvml


def _words(nvml: ctypes.CDLL, status: int) -> str:
    words = nvml.nvmlErrorString(status)
    return words.decode(errors="replace") if words else f"status {status}"
