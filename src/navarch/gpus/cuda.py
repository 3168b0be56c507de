"""The CUDA driver API, called directly: the tests need the driver, but no toolkit."""

import ctypes
import os
from collections.abc import Callable, Sequence

from navarch.ports.checks import NotRunError, TestFailedError

LIBRARY = "libcuda.so.1"
_LOG_BYTES = 8192
_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES = 5, 6
_SMS, _MAJOR, _MINOR = 16, 75, 76
_SOMEBODY_ELSES = frozenset({2, 46, 805})
"""Out of memory, device unavailable, too many clients: other processes use the GPU."""


class Cuda:
    """One device with a context, until closed.

    A failure before the context exists means that the test could not run; a failure after it is the
    device's.
    """

    def __init__(self, bus_id: str) -> None:
        self._cuda = _load()
        self._started = False
        self._device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGetByPCIBusId", ctypes.byref(self._device), bus_id.encode())
        self._started = True
        self.call("cuCtxCreate_v2", ctypes.byref(self._context), 0, self._device)

    @property
    def context(self) -> ctypes.c_void_p:
        """The context, for copies between devices."""
        return self._context

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors."""
        return self._attribute(_SMS)

    @property
    def architecture(self) -> int:
        """The compute capability, as 90 for 9.0."""
        return 10 * self._attribute(_MAJOR) + self._attribute(_MINOR)

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes on the device."""
        address = ctypes.c_ulonglong()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def pinned(self, size: int) -> int:
        """Return the address of `size` bytes of pinned host memory."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 1)
        return address.value or 0

    def write(self, address: int, data: bytes) -> None:
        """Copy from the host to the device."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_ulonglong(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device to the host."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_ulonglong(address), ctypes.c_size_t(size))
        return data.raw

    def zero(self, address: int, size: int) -> None:
        """Fill memory with zeros."""
        self.call("cuMemsetD8_v2", ctypes.c_ulonglong(address), 0, ctypes.c_size_t(size))

    def kernel(self, ptx: str, name: str) -> ctypes.c_void_p:
        """Return a kernel, compiled by the driver for this device."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p).value, _LOG_BYTES)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        status = self._cuda.cuModuleLoadDataEx(
            ctypes.byref(module), ptx.encode(), 2, options, values
        )
        if status != 0:
            message = log.value.decode(errors="replace").strip()
            raise NotRunError(f"the driver refuses the test's kernel: {message or status}")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(
        self, kernel: ctypes.c_void_p, blocks: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """Launch a kernel; all its arguments are 64-bit numbers."""
        values = [ctypes.c_ulonglong(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def wait(self) -> None:
        """Wait until all launched work has ended."""
        self.call("cuCtxSynchronize")

    def timed(self, work: Callable[[], None], times: int) -> float:
        """Return how many seconds the device spent on `work`, done `times`, by its own clock."""
        first, last = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (first, last):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", first, None)
        for _ in range(times):
            work()
        self.call("cuEventRecord", last, None)
        self.wait()
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), first, last)
        return milliseconds.value / 1000.0

    def call(self, function: str, *arguments: object) -> None:
        """Call a driver function; raise the error that its failure means."""
        status = getattr(self._cuda, function)(*arguments)
        if status == 0:
            return
        words = f"{function}: {self._words(status)}"
        if self._started and status not in _SOMEBODY_ELSES:
            raise TestFailedError(words)
        raise NotRunError(words)

    def try_call(self, function: str, *arguments: object) -> bool:
        """Call a driver function that may be refused; return whether it succeeded."""
        status: int = getattr(self._cuda, function)(*arguments)
        return status == 0

    def close(self) -> None:
        """Release everything."""
        self._cuda.cuCtxDestroy_v2(self._context)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def _words(self, status: int) -> str:
        words = ctypes.c_char_p()
        if self._cuda.cuGetErrorString(status, ctypes.byref(words)) != 0 or not words.value:
            return f"error {status}"
        return words.value.decode(errors="replace")


def _load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(os.environ.get("NAVARCH_CUDA_LIBRARY") or LIBRARY)
    except OSError as error:
        raise NotRunError(f"no CUDA driver: {error}") from error
