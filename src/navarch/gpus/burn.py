"""Tests of one GPU: context, matrix products, memory patterns, copies. Run in a child process."""

import struct
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_ulonglong
from functools import partial

from navarch.gpus.cuda import Cuda
from navarch.gpus.kernels import (
    FLOPS_MMA_WARP_ROUND,
    FLOPS_WGMMA_GROUP_ROUND,
    GROUPS_BURN,
    STREAM_PATTERN,
    THREADS_BURN,
    WARPS_BURN,
    mma_ptx,
    patterns_ptx,
    wgmma_ptx,
)
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    TestFailedError,
)

ROUNDS = 8192
"""Per launch, the pairs of one product added and one subtracted. One more remains to compare."""
PRODUCTS = 2 * ROUNDS + 1
LAUNCHES_AT_ONCE = 16
WARM_S = 1.0
"""How long clocks take to settle at the power limit; not counted."""
HOPPER, AMPERE = 90, 80

PATTERNS = (
    (0x00000000, 0),
    (0xFFFFFFFF, 0),
    (0x55555555, 0),
    (0xAAAAAAAA, 0),
    # A different value in every word: finds address lines that select the wrong one.
    (0x12345678, 0x9E3779B1),
)
TOUCH_BYTES = 16 << 20
STREAM_BYTES = 8 << 30
"""Far more than a GPU's cache."""
COPY_BYTES, COPY_TIMES = 1 << 30, 16


def touch(cuda: Cuda) -> None:
    """Write to the device and read it back."""
    sent = bytes(range(256)) * (TOUCH_BYTES // 256)
    address = cuda.allocate(TOUCH_BYTES)
    cuda.zero(address, TOUCH_BYTES)
    cuda.write(address, sent)
    if cuda.read(address, TOUCH_BYTES) != sent:
        raise TestFailedError(f"{TOUCH_BYTES >> 20} MiB read back wrong")


def burn(cuda: Cuda, *, seconds: float, spoil: bool = False) -> BurnFigures:
    """Multiply on every multiprocessor while reading memory, and verify both.

    Every sum is compared with its reference, and every word read with the word written.
    """
    ptx, flops = _burn_kernel(cuda.architecture)
    kernel = cuda.kernel(ptx, "burn")
    answer = cuda.allocate(8)
    cuda.zero(answer, 8)
    blocks = 2 * cuda.multiprocessors
    memory, size = _filled(cuda)
    if spoil:
        cuda.write(memory, bytes(16))
    arguments = (ROUNDS, answer, int(spoil), memory, size - 1)
    once = partial(cuda.launch, kernel, blocks, THREADS_BURN, arguments)
    warm, _ = _sustain(cuda, once, min(WARM_S, seconds))
    launches, spent = _sustain(cuda, once, seconds)
    (wrong,) = struct.unpack("<Q", cuda.read(answer, 8))
    return BurnFigures(
        tflops=launches * blocks * PRODUCTS * flops / spent / 1e12,
        seconds=spent,
        products=(warm + launches) * blocks * PRODUCTS,
        wrong=wrong,
    )


def patterns(cuda: Cuda, *, share: float) -> PatternFigures:
    """Write each pattern to a share of the free memory and read it back."""
    fill, check = (cuda.kernel(patterns_ptx(), name) for name in ("fill", "check"))
    size = int(cuda.memory()[0] * share) & ~0xFFFFF
    if size <= 0:
        raise NotRunError("there is no free memory to test")
    address, answer = cuda.allocate(size), cuda.allocate(16)
    cuda.write(answer, struct.pack("<QQ", 0, (1 << 64) - 1))
    blocks = 8 * cuda.multiprocessors
    for pattern, step in PATTERNS:
        arguments = (address, size // 16, pattern, step, answer)
        cuda.launch(fill, blocks, 256, arguments)
        cuda.launch(check, blocks, 256, arguments)
        cuda.wait()
    wrong, first = struct.unpack("<QQ", cuda.read(answer, 16))
    return PatternFigures(
        tested_bytes=size,
        patterns=len(PATTERNS),
        wrong=wrong,
        first_wrong=16 * first if wrong else None,
    )


def copies(cuda: Cuda, others: Sequence[str] = ()) -> CopyFigures:
    """Measure copies to and from the host, on the device, and to `others`, given by bus id."""
    free = cuda.memory()[0]
    size = min(COPY_BYTES, free // 4) & ~0xFFFFF
    if size <= 0:
        raise NotRunError("there is no free memory to copy")
    here, there, host = cuda.allocate(size), cuda.allocate(size), cuda.pinned(size)
    between = [_between(cuda, here, size, bus) for bus in others]
    return CopyFigures(
        to_device_gbs=_gbs(cuda, size, "cuMemcpyHtoDAsync_v2", here, host),
        from_device_gbs=_gbs(cuda, size, "cuMemcpyDtoHAsync_v2", host, here),
        on_device_gbs=2 * _gbs(cuda, size, "cuMemcpyDtoDAsync_v2", there, here),
        between_devices_gbs=min(between, default=None),
    )


def _sustain(cuda: Cuda, once: Callable[[], None], seconds: float) -> tuple[int, float]:
    """Launch for at least `seconds` of device time; return the launches and the time."""
    spent, launches = 0.0, 0
    while spent < seconds or not launches:
        spent += cuda.timed(once, LAUNCHES_AT_ONCE)
        launches += LAUNCHES_AT_ONCE
    return launches, spent


def _filled(cuda: Cuda) -> tuple[int, int]:
    """Return memory filled with the pattern, and its size, a power of two."""
    room = min(STREAM_BYTES, cuda.memory()[0] // 4)
    if room < TOUCH_BYTES:
        raise NotRunError("there is no free memory to read from")
    size = 1 << (room.bit_length() - 1)
    memory = cuda.allocate(size)
    fill = cuda.kernel(patterns_ptx(), "fill")
    cuda.launch(fill, 8 * cuda.multiprocessors, 256, (memory, size // 16, STREAM_PATTERN, 0, 0))
    cuda.wait()
    return memory, size


def _burn_kernel(architecture: int) -> tuple[str, int]:
    """Return the kernel for a GPU, and the operations that a block does per round."""
    if architecture == HOPPER:
        return wgmma_ptx(), GROUPS_BURN * FLOPS_WGMMA_GROUP_ROUND
    if architecture >= AMPERE:
        return mma_ptx(), WARPS_BURN * FLOPS_MMA_WARP_ROUND
    raise NotRunError("cards before Ampere have no bf16 products")


def _gbs(cuda: Cuda, size: int, function: str, to: int, source: int) -> float:
    arguments = (c_ulonglong(to), c_ulonglong(source), c_size_t(size), None)
    return _copy_gbs(cuda, size, partial(cuda.call, function, *arguments))


def _copy_gbs(cuda: Cuda, size: int, copy: Callable[[], None]) -> float:
    copy()
    cuda.wait()
    return COPY_TIMES * size / cuda.timed(copy, COPY_TIMES) / 1e9


def _between(cuda: Cuda, here: int, size: int, bus: str) -> float:
    """Measure copies to another device, over NVLink if there is one, else over PCIe."""
    other = Cuda(bus)
    there = other.allocate(size)
    cuda.call("cuCtxSetCurrent", cuda.context)
    # Refused if there is no peer access or if it is open already; the copy works either way.
    cuda.try_call("cuCtxEnablePeerAccess", other.context, 0)
    to, source = (c_ulonglong(there), other.context), (c_ulonglong(here), cuda.context)
    copy = partial(cuda.call, "cuMemcpyPeerAsync", *to, *source, c_size_t(size), None)
    found = _copy_gbs(cuda, size, copy)
    other.close()
    cuda.call("cuCtxSetCurrent", cuda.context)
    return found
