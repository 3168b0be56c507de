"""NVML, called directly: nothing but the driver needs to be installed."""

import ctypes
from collections.abc import Sequence

from navarch.core.instance import Gpu, GpuMetrics
from navarch.gpus.nvml_health import CardReader
from navarch.gpus.nvml_library import Event, MemoryInfo, NvmlLibrary, PciInfo, Utilization
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuEvent, GpuHealth, GpuLostError

EVENTS_AT_ONCE = 1000
"""A limit, so that a flood of errors does not block the reader."""

_TEXT = 96
_XID_CRITICAL_ERROR = 0x8


class NvmlGpus:
    """The GPUs that the driver of this machine lists.

    The driver may come up after the agent, so a failure is followed by a new initialisation.
    Callers that cannot wait for a hung driver use `child.NvmlChild`.
    """

    def __init__(self, clock: Clock, *, library: str | None = None) -> None:
        self._clock = clock
        self._nvml = NvmlLibrary(library)
        self._handles: dict[str, ctypes.c_void_p] = {}
        self._cards: dict[str, CardReader] = {}
        self._last: dict[int, Gpu] = {}
        self._event_set: ctypes.c_void_p | None = None
        self._events: list[GpuEvent] = []
        self._happened = 0

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU the driver lists."""
        count = ctypes.c_uint()
        self._nvml.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        driver, version = self._text("nvmlSystemGetDriverVersion"), ctypes.c_int()
        self._nvml.call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
        return [self._gpu(index, driver, cuda) for index in range(count.value)]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the metrics of a GPU; unsupported ones are zero."""
        handle = self._handle(gpu)
        memory, load = MemoryInfo(), Utilization()
        power_mw, degrees = ctypes.c_uint(), ctypes.c_uint()
        self._nvml.try_call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        self._nvml.try_call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(load))
        self._nvml.try_call("nvmlDeviceGetPowerUsage", handle, ctypes.byref(power_mw))
        self._nvml.try_call("nvmlDeviceGetTemperature", handle, 0, ctypes.byref(degrees))
        return GpuMetrics(
            temperature_c=float(degrees.value),
            power_w=power_mw.value / 1000.0,
            utilization_pct=float(load.gpu),
            memory_used_bytes=float(memory.used),
        )

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the health readings of a GPU."""
        handle = self._handle(gpu)
        if gpu.uuid not in self._cards:
            self._cards[gpu.uuid] = CardReader(self._nvml, handle)
        return self._cards[gpu.uuid].read()

    def events(self) -> Sequence[GpuEvent]:
        """Return the XIDs since the last settled one. XIDs before our start are not included."""
        self._watch()
        event = Event()
        for _ in range(EVENTS_AT_ONCE):
            if not self._nvml.try_call(
                "nvmlEventSetWait_v2", self._event_set, ctypes.byref(event), 0
            ):
                break
            if event.type == _XID_CRITICAL_ERROR:
                uuids = {handle.value: uuid for uuid, handle in self._handles.items()}
                gpu = uuids.get(event.device, "unknown")
                now, code = self._clock.now(), int(event.data)
                self._happened += 1
                self._events.append(GpuEvent(number=self._happened, at=now, gpu=gpu, code=code))
        return list(self._events)

    def settle(self, number: int) -> None:
        """Forget events up to `number`."""
        self._events = [event for event in self._events if event.number > number]

    def close(self) -> None:
        """Shut the library down."""
        if self._nvml.loaded:
            if self._event_set is not None:
                self._nvml.status("nvmlEventSetFree", self._event_set)
                self._event_set = None
            self._nvml.close()
            self._handles.clear()
            self._cards.clear()

    def _gpu(self, index: int, driver: str, cuda: str) -> Gpu:
        handle = ctypes.c_void_p()
        try:
            self._nvml.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            uuid = self._text("nvmlDeviceGetUUID", handle)
            if self._handles.get(uuid, handle).value != handle.value:
                self._cards.pop(uuid, None)  # The driver was reloaded.
            self._handles[uuid] = handle
            pci, memory = PciInfo(), MemoryInfo()
            self._nvml.try_call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
            self._nvml.try_call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            serial = self._serial(handle)
        except GpuLostError:
            # Keep it listed, so that checks report it as unreadable.
            return self._last.get(index, Gpu(index=index, uuid=f"lost-{index}"))
        gpu = Gpu(
            index=index,
            uuid=uuid,
            name=self._text("nvmlDeviceGetName", handle),
            pci_bus_id=pci.bus_id.decode(errors="replace"),
            memory_bytes=memory.total,
            driver_version=driver,
            cuda_version=cuda,
            serial=serial,
        )
        self._last[index] = gpu
        return gpu

    def _handle(self, gpu: Gpu) -> ctypes.c_void_p:
        if gpu.uuid not in self._handles:
            raise GpuLostError("GPU is lost")
        return self._handles[gpu.uuid]

    def _text(self, function: str, *handle: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        self._nvml.call(function, *handle, text, _TEXT)
        return text.value.decode(errors="replace")

    def _serial(self, handle: ctypes.c_void_p) -> str:
        """Return the serial number of a board; empty if the driver or the GPU reports none."""
        text = ctypes.create_string_buffer(_TEXT)
        self._nvml.attempt("nvmlDeviceGetSerial", handle, text, _TEXT)
        return text.value.decode(errors="replace")

    def _watch(self) -> None:
        """Subscribe to XIDs, once."""
        if self._event_set is not None:
            return
        if not self._handles:
            self.list_gpus()
        event_set = ctypes.c_void_p()
        self._nvml.call("nvmlEventSetCreate", ctypes.byref(event_set))
        for handle in self._handles.values():
            self._nvml.try_call(
                "nvmlDeviceRegisterEvents",
                handle,
                ctypes.c_ulonglong(_XID_CRITICAL_ERROR),
                event_set,
            )
        self._event_set = event_set
