"""NVIDIA's management library, called directly: there is nothing to install but the driver."""

import ctypes
import os
from collections.abc import Callable, Sequence
from datetime import datetime

from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuLostError

LIBRARY = "libnvidia-ml.so.1"
EVENTS_AT_ONCE = 1000
"""A driver that is flooded with errors must not keep us here for ever."""

_OK, _NOT_SUPPORTED, _TIMEOUT, _LOST = 0, 3, 10, 15
_TEXT = 96
_TEMPERATURE_GPU, _THRESHOLD_SLOWDOWN = 0, 1
_UNCORRECTED, _VOLATILE = 1, 0
_XID_CRITICAL_ERROR = 0x8


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlGpus:
    """The GPUs that the driver of this machine knows.

    The library is loaded and initialised when it is first needed, and again after a failure:
    a driver may come up after the agent does.
    """

    def __init__(self, clock: Clock, *, library: str | None = None) -> None:
        self._clock = clock
        self._library = library or os.environ.get("NAVARCH_NVML_LIBRARY") or LIBRARY
        self._nvml: ctypes.CDLL | None = None
        self._handles: dict[str, ctypes.c_void_p] = {}
        self._last: dict[int, Gpu] = {}
        self._event_set: ctypes.c_void_p | None = None
        self._events: list[GpuEvent] = []
        self._happened = 0

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU the driver lists."""
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        driver, cuda = self._driver_version(), self._cuda_version()
        return [self._gpu(index, driver, cuda) for index in range(count.value)]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return what a GPU is doing; what the card does not tell reads zero."""
        handle = self._handle(gpu)
        memory, load, power_mw = _Memory(), _Utilization(), ctypes.c_uint()
        self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        self._ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(load))
        self._ask("nvmlDeviceGetPowerUsage", handle, ctypes.byref(power_mw))
        return GpuMetrics(
            temperature_c=self._temperature(handle) or 0.0,
            power_w=power_mw.value / 1000.0,
            utilization_pct=float(load.gpu),
            memory_used_bytes=float(memory.used),
        )

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
        handle = self._handle(gpu)
        slowdown, errors = ctypes.c_uint(), ctypes.c_ulonglong()
        has_slowdown = self._ask(
            "nvmlDeviceGetTemperatureThreshold", handle, _THRESHOLD_SLOWDOWN, ctypes.byref(slowdown)
        )
        has_errors = self._ask(
            "nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE, ctypes.byref(errors)
        )
        return GpuHealth(
            temperature_c=self._temperature(handle),
            slowdown_c=float(slowdown.value) if has_slowdown and slowdown.value else None,
            ecc_uncorrected=errors.value if has_errors else None,
        )

    def events(self) -> Sequence[GpuEvent]:
        """Return the XIDs since the last settled one. Those before our start are not seen."""
        self._watch()
        event = _Event()
        for _ in range(EVENTS_AT_ONCE):
            if not self._ask("nvmlEventSetWait_v2", self._event_set, ctypes.byref(event), 0):
                break
            if event.type == _XID_CRITICAL_ERROR:
                self._note(event, self._clock.now())
        return list(self._events)

    def settle(self, number: int) -> None:
        """Forget events up to `number`."""
        self._events = [event for event in self._events if event.number > number]

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            if self._event_set is not None:
                self._nvml.nvmlEventSetFree(self._event_set)
                self._event_set = None
            self._nvml.nvmlShutdown()
            self._nvml = None
            self._handles.clear()

    def _gpu(self, index: int, driver: str, cuda: str) -> Gpu:
        handle = ctypes.c_void_p()
        try:
            self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            uuid = self._text("nvmlDeviceGetUUID", handle)
            self._handles[uuid] = handle
            pci, memory = _PciInfo(), _Memory()
            self._ask("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
            self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        except GpuLostError:
            # It must not vanish from the list: that it cannot be read any more is the finding.
            return self._last.get(index, Gpu(index=index, uuid=f"lost-{index}"))
        gpu = Gpu(
            index=index,
            uuid=uuid,
            name=self._text("nvmlDeviceGetName", handle),
            pci_bus_id=pci.bus_id.decode(errors="replace"),
            memory_bytes=memory.total,
            driver_version=driver,
            cuda_version=cuda,
        )
        self._last[index] = gpu
        return gpu

    def _handle(self, gpu: Gpu) -> ctypes.c_void_p:
        if gpu.uuid not in self._handles:
            raise GpuLostError("GPU is lost")
        return self._handles[gpu.uuid]

    def _temperature(self, handle: ctypes.c_void_p) -> float | None:
        degrees = ctypes.c_uint()
        known = self._ask(
            "nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU, ctypes.byref(degrees)
        )
        return float(degrees.value) if known else None

    def _driver_version(self) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        self._call("nvmlSystemGetDriverVersion", text, _TEXT)
        return text.value.decode(errors="replace")

    def _cuda_version(self) -> str:
        version = ctypes.c_int()
        self._call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def _text(self, function: str, handle: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        self._call(function, handle, text, _TEXT)
        return text.value.decode(errors="replace")

    def _watch(self) -> None:
        """Ask the driver for XIDs, once."""
        if self._event_set is not None:
            return
        if not self._handles:
            self.list_gpus()
        event_set = ctypes.c_void_p()
        self._call("nvmlEventSetCreate", ctypes.byref(event_set))
        for handle in self._handles.values():
            self._ask(
                "nvmlDeviceRegisterEvents",
                handle,
                ctypes.c_ulonglong(_XID_CRITICAL_ERROR),
                event_set,
            )
        self._event_set = event_set

    def _note(self, event: _Event, at: datetime) -> None:
        uuids = {handle.value: uuid for uuid, handle in self._handles.items()}
        self._happened += 1
        self._events.append(
            GpuEvent(
                number=self._happened,
                at=at,
                gpu=uuids.get(event.device, "unknown"),
                code=int(event.data),
            )
        )

    def _ask(self, function: str, *arguments: object) -> bool:
        """Call a function that a card need not have; return whether it answered."""
        status = self._status(function, *arguments)
        if status in (_NOT_SUPPORTED, _TIMEOUT):
            return False
        self._check(function, status)
        return True

    def _call(self, function: str, *arguments: object) -> None:
        self._check(function, self._status(function, *arguments))

    def _status(self, function: str, *arguments: object) -> int:
        try:
            called: Callable[..., int] = getattr(self._loaded(), function)
        except AttributeError as error:
            raise GpuError(f"{self._library} has no {function}") from error
        return called(*arguments)

    def _check(self, function: str, status: int) -> None:
        if status == _OK:
            return
        words = _words(self._loaded(), status)
        if status == _LOST:
            raise GpuLostError(words)
        raise GpuError(f"{function}: {words}")

    def _loaded(self) -> ctypes.CDLL:
        if self._nvml is not None:
            return self._nvml
        try:
            nvml = ctypes.CDLL(self._library)
        except OSError as error:
            raise GpuError(f"no NVIDIA driver: {error}") from error
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        status = nvml.nvmlInit_v2()
        if status != _OK:
            raise GpuError(f"nvmlInit_v2: {_words(nvml, status)}")
        self._nvml = nvml
        return nvml


def _words(nvml: ctypes.CDLL, status: int) -> str:
    words = nvml.nvmlErrorString(status)
    return words.decode(errors="replace") if words else f"status {status}"
