"""The test kernels, in PTX, which the driver compiles for any GPU.

Matrix products use random integers that fill every bit of a bf16, added and subtracted in turn.
Every sum is exact and can be compared with integer arithmetic. The numbers come from a hash of
their position, `element`: regular patterns draw less power, and run faster, than real workloads.
For the same reason the kernels read memory all the time and verify it too: some faults show only
under both loads.
"""

from collections.abc import Iterator

HEADER = """.version {version}
.target {target}
.address_size 64
"""

_BURN_HEAD = """
.visible .entry burn(.param .u64 rounds, .param .u64 answer, .param .u64 spoil,
  .param .u64 memory, .param .u64 mask)
{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %d<32>; .reg .f32 %f<136>; .reg .b32 %a<16>;
.reg .b32 %s<40>; .reg .b64 %m<8>; .reg .b32 %b<16>; .reg .b32 %n<16>; .reg .b16 %h<4>;
ld.param.u64 %d1, [rounds]; ld.param.u64 %d2, [answer]; ld.param.u64 %d3, [spoil];
cvt.u32.u64 %r2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r9, 0;
"""
_BURN_TAIL = """
setp.eq.u32 %p2, %r9, 0;
@%p2 bra END;
cvt.u64.u32 %d4, %r9;
atom.global.add.u64 %d5, [%d2], %d4;
END:
ret;
}
"""

DEPTH_MMA, DEPTH_WGMMA = 16, 64
THREADS_BURN = 256
MMA_PER_ROUND = 32
FLOPS_MMA_WARP_ROUND = MMA_PER_ROUND * 2 * 16 * 8 * 16
FLOPS_WGMMA_GROUP_ROUND = 2 * 64 * 256 * DEPTH_WGMMA
WARPS_BURN, GROUPS_BURN = THREADS_BURN // 32, THREADS_BURN // 128

STREAM_PATTERN = 0x5A5AA5A5
"""The content of the memory that is read during the products."""
_LOADS_MMA, _LOADS_WGMMA = 1, 4
"""The 16-byte words that each thread reads per round: about a third of an H200's bandwidth."""

_LEFT, _RIGHT = (0x9E3779B1, 0x85EBCA77), (0xC2B2AE3D, 0x27D4EB2F)
_MIX = 0x2C1B3C6D

_A_BYTES, _B_BYTES = 128 * DEPTH_WGMMA * 2, 256 * DEPTH_WGMMA * 2
_A_TILE, _B_TILE = 64 * 16 * 2, 256 * 16 * 2


def element(row: int, depth: int, *, left: bool) -> int:
    """Return the left matrix's value at row and depth, or the right one's at column and depth.

    From 128 to 255 or from -255 to -128: eight bits, all of them used, and a sign.
    """
    first, second = _LEFT if left else _RIGHT
    mixed = (row * first + depth * second) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 15) * _MIX) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    size = mixed & 127 | 128
    return -size if mixed & 128 else size


def patterns_ptx() -> str:
    """Return `fill` and `check`: arguments address, count of 16-byte words, pattern, step, result.

    A word holds pattern + step * index, four times over with small differences. The result is the
    count of wrong words and the index of the first.
    """
    start = """
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<16>;
ld.param.u64 %d1, [base]; ld.param.u64 %d2, [count];
ld.param.u64 %d8, [pattern]; ld.param.u64 %d9, [step];
cvt.u32.u64 %r8, %d8; cvt.u32.u64 %r9, %d9;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
mul.wide.u32 %d3, %r1, %r2; cvt.u64.u32 %d4, %r3; add.u64 %d3, %d3, %d4;
mul.wide.u32 %d5, %r4, %r2;
NEXT:
setp.ge.u64 %p1, %d3, %d2;
@%p1 bra END;
shl.b64 %d6, %d3, 4; add.u64 %d6, %d1, %d6;
cvt.u32.u64 %r5, %d3; mad.lo.u32 %r10, %r5, %r9, %r8;
not.b32 %r11, %r10; xor.b32 %r12, %r10, %r9; not.b32 %r13, %r12;
"""
    end = """
add.u64 %d3, %d3, %d5;
bra NEXT;
END:
ret;
}
"""
    names = ("base", "count", "pattern", "step", "answer")
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    store = "st.global.v4.u32 [%d6], {%r10,%r11,%r12,%r13};"
    fill = f".visible .entry fill({parameters})\n{{{start}{store}{end}"
    compare = """
ld.global.v4.u32 {%r14,%r15,%r16,%r17}, [%d6];
xor.b32 %r14, %r14, %r10; xor.b32 %r15, %r15, %r11; or.b32 %r14, %r14, %r15;
xor.b32 %r16, %r16, %r12; xor.b32 %r17, %r17, %r13; or.b32 %r16, %r16, %r17;
or.b32 %r14, %r14, %r16;
setp.eq.u32 %p2, %r14, 0;
@%p2 bra FINE;
ld.param.u64 %d10, [answer];
mov.u64 %d11, 1;
atom.global.add.u64 %d12, [%d10], %d11;
atom.global.min.u64 %d12, [%d10+8], %d3;
FINE:
"""
    check = f".visible .entry check({parameters})\n{{{start}{compare}{end}"
    return HEADER.format(version="7.0", target="sm_70") + fill + check


def mma_ptx() -> str:
    """Return `burn` for GPUs since Ampere.

    Arguments: rounds, result, whether to corrupt a sum, memory to read, its size less one.

    Every warp keeps a 64 by 16 and a 16 by 64 matrix in registers and adds their product to 128
    sums per thread, again and again.
    """
    sums = [f"%f{i}" for i in range(128)]
    lines = [
        HEADER.format(version="7.0", target="sm_80"),
        _BURN_HEAD,
        # g and t: NVIDIA's names for a lane's position in a fragment
        "and.b32 %r20, %r1, 31; shr.u32 %r21, %r20, 2;",
        "and.b32 %r22, %r20, 3; shl.b32 %r23, %r22, 1;",
    ]
    for m in range(4):
        for part in range(4):
            down, deep = f"{16 * m + 8 * (part % 2)}", f"{8 * (part // 2)}"
            lines.append(_pair(f"%a{4 * m + part}", "%r21", down, "%r23", deep, left=True))
    lines += [
        _pair(f"%b{2 * n + part}", "%r21", f"{8 * n}", "%r23", f"{8 * part}", left=False)
        for n in range(8)
        for part in range(2)
    ]
    lines += [f"mov.f32 {s}, 0f00000000;" for s in sums]
    # The same left matrix with all signs inverted
    lines += [f"xor.b32 %n{i}, %a{i}, 0x80008000;" for i in range(16)]
    lines += [*_stream_begin(_LOADS_MMA), "LOOP:", *_stream(_LOADS_MMA)]
    lines += [*_mma_round(sums, "%a"), *_mma_round(sums, "%n")]
    lines += ["sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra LOOP;"]
    lines += [*_mma_round(sums, "%a"), *_stream_end(_LOADS_MMA), *_spoil(sums[0])]
    for m in range(4):
        for n in range(8):
            for i in range(4):
                row, column = 16 * m + 8 * (i // 2), 8 * n + i % 2
                place = f"add.u32 %r10, %r21, {row}; add.u32 %r11, %r23, {column};"
                lines += _compare(sums[4 * (8 * m + n) + i], place, DEPTH_MMA, 4 * (8 * m + n) + i)
    return "\n".join([*lines, _BURN_TAIL])


def wgmma_ptx() -> str:
    """Return `burn` for Hopper. Its tensor cores read matrices from shared memory.

    Two groups of four warps share a 64-deep right matrix; each has its own left matrix.
    """
    sums = [f"%f{i}" for i in range(128)]
    lines = [
        HEADER.format(version="8.0", target="sm_90a"),
        f".shared .align 1024 .b8 left[{_A_BYTES}]; .shared .align 1024 .b8 right[{_B_BYTES}];",
        _BURN_HEAD,
    ]
    lines += _fill_shared()
    lines += [
        # The descriptors: address, distance of the two halves in depth, distance of 8 rows.
        "shr.u32 %r20, %r1, 7;",  # which group
        f"mul.lo.u32 %r21, %r20, {_A_BYTES // 2}; add.u32 %r21, %r21, %r5;",
        "shr.u32 %r21, %r21, 4; shr.u32 %r22, %r6, 4;",
        "cvt.u64.u32 %d10, %r21; cvt.u64.u32 %d11, %r22;",
        f"mov.u64 %d12, {(128 >> 4) << 16 | (256 >> 4) << 32};",
        "or.b64 %d10, %d10, %d12; or.b64 %d11, %d11, %d12;",
    ]
    for step in range(1, 4):
        lines.append(f"add.u64 %d{20 + step}, %d10, {step * _A_TILE >> 4};")
        lines.append(f"add.u64 %d{24 + step}, %d11, {step * _B_TILE >> 4};")
    lines.append("mov.u64 %d20, %d10; mov.u64 %d24, %d11;")
    lines += [f"mov.f32 {s}, 0f00000000;" for s in sums]
    lines += ["setp.eq.u32 %p3, %r1, %r1;", *_stream_begin(_LOADS_WGMMA), "LOOP:"]
    lines += [*_stream(_LOADS_WGMMA), "wgmma.fence.sync.aligned;"]
    lines += [*_wgmma_round(sums, 1), *_wgmma_round(sums, -1)]
    lines += [
        # One group may be in flight while the next is issued.
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;",
        "sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra LOOP;",
        "wgmma.fence.sync.aligned;",
        *_wgmma_round(sums, 1),
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        *_stream_end(_LOADS_WGMMA),
        *_spoil(sums[0]),
        # Row and column of a thread's first sum
        "and.b32 %r23, %r1, 127; shr.u32 %r24, %r23, 5; and.b32 %r25, %r23, 31;",
        "shr.u32 %r26, %r25, 2; and.b32 %r27, %r25, 3; shl.b32 %r27, %r27, 1;",
        "shl.b32 %r24, %r24, 4; add.u32 %r24, %r24, %r26; shl.b32 %r20, %r20, 6;",
        "add.u32 %r24, %r24, %r20;",
    ]
    for i in range(128):
        row, column = 8 * (i // 2 % 2), 8 * (i // 4) + i % 2
        place = f"add.u32 %r10, %r24, {row}; add.u32 %r11, %r27, {column};"
        lines += _compare(sums[i], place, DEPTH_WGMMA, i)
    return "\n".join([*lines, _BURN_TAIL])


def _mma_round(sums: list[str], left: str) -> Iterator[str]:
    """Add one product of the two matrices in registers to the sums."""
    for m in range(4):
        for n in range(8):
            d = ",".join(sums[4 * (8 * m + n) : 4 * (8 * m + n) + 4])
            a = ",".join(f"{left}{4 * m + i}" for i in range(4))
            b = f"%b{2 * n},%b{2 * n + 1}"
            yield (
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                f"{{{d}}}, {{{a}}}, {{{b}}}, {{{d}}};"
            )


def _wgmma_round(sums: list[str], sign: int) -> Iterator[str]:
    """Add one product of the two matrices in shared memory to the sums, or subtract it."""
    for step in range(4):
        yield (
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
            f"{{{','.join(sums)}}}, %d{20 + step}, %d{24 + step}, %p3, {sign}, 1, 0, 0;"
        )


def _value(out: str, row: str, depth: str, *, left: bool) -> str:
    """Compute one element as an integer: the instructions of `element`."""
    first, second = _LEFT if left else _RIGHT
    return (
        f"mul.lo.u32 {out}, {row}, {first:#x}; mad.lo.u32 {out}, {depth}, {second:#x}, {out};"
        f" shr.u32 %r31, {out}, 15; xor.b32 {out}, {out}, %r31; mul.lo.u32 {out}, {out}, {_MIX:#x};"
        f" shr.u32 %r31, {out}, 16; xor.b32 {out}, {out}, %r31; and.b32 %r31, {out}, 128;"
        f" and.b32 {out}, {out}, 127; or.b32 {out}, {out}, 128;"
        f" setp.ne.u32 %p4, %r31, 0; @%p4 neg.s32 {out}, {out};"
    )


def _bf16(out: str, number: str) -> str:
    """Convert a small integer to the upper half of a float, which is its bf16."""
    return f"cvt.rn.f32.s32 %f129, {number}; mov.b32 {out}, %f129; shr.u32 {out}, {out}, 16;"


def _pair(out: str, row: str, row_more: str, depth: str, depth_more: str, *, left: bool) -> str:
    """Compute two neighbours in depth, packed into one register."""
    return (
        f"add.u32 %r10, {row}, {row_more}; add.u32 %r11, {depth}, {depth_more};"
        f" {_value('%r12', '%r10', '%r11', left=left)} {_bf16('%r13', '%r12')}"
        f" add.u32 %r11, %r11, 1; {_value('%r12', '%r10', '%r11', left=left)}"
        f" {_bf16('%r14', '%r12')} shl.b32 %r14, %r14, 16; or.b32 {out}, %r13, %r14;"
    )


def _fill_shared() -> Iterator[str]:
    """Write both matrices in the layout of the tensor cores: blocks of 8 by 8."""
    yield "mov.u32 %r5, left; mov.u32 %r6, right;"
    for name, base, rows, left in (("L", "%r5", 128, True), ("R", "%r6", 256, False)):
        # In the left matrix each group's 64 rows are together, then 16 of depth, then 8 rows.
        group = 64 if left else 256
        tile, half = group * 16 * 2, group * DEPTH_WGMMA * 2
        yield f"mov.u32 %r30, %r1; FILL{name}:"
        yield f"setp.ge.u32 %p1, %r30, {rows * DEPTH_WGMMA}; @%p1 bra FILLED{name};"
        yield f"shr.u32 %r10, %r30, 6; and.b32 %r11, %r30, {DEPTH_WGMMA - 1};"
        yield _value("%r12", "%r10", "%r11", left=left) + _bf16("%r13", "%r12")
        yield f"div.u32 %r14, %r10, {group}; rem.u32 %r15, %r10, {group};"
        yield f"mul.lo.u32 %r16, %r14, {half}; add.u32 %r16, %r16, {base};"
        yield f"shr.u32 %r17, %r11, 4; mad.lo.u32 %r16, %r17, {tile}, %r16;"
        yield "shr.u32 %r17, %r15, 3; mad.lo.u32 %r16, %r17, 256, %r16;"
        yield "and.b32 %r17, %r15, 7; mad.lo.u32 %r16, %r17, 16, %r16;"
        yield "shr.u32 %r17, %r11, 3; and.b32 %r17, %r17, 1; mad.lo.u32 %r16, %r17, 128, %r16;"
        yield "and.b32 %r17, %r11, 7; mad.lo.u32 %r16, %r17, 2, %r16;"
        yield "cvt.u16.u32 %h1, %r13; st.shared.u16 [%r16], %h1;"
        yield f"add.u32 %r30, %r30, {THREADS_BURN}; bra FILL{name}; FILLED{name}:"
    # Tensor cores read shared memory through another proxy than stores use.
    yield "fence.proxy.async; bar.sync 0;"


def _stream_begin(loads: int) -> Iterator[str]:
    """Give each thread its own position in the memory to read."""
    yield "ld.param.u64 %m1, [memory]; ld.param.u64 %m2, [mask];"
    yield f"mov.u32 %s38, %ctaid.x; mad.lo.u32 %s38, %s38, {THREADS_BURN}, %r1;"
    yield "mul.wide.u32 %m3, %s38, 16; and.b64 %m3, %m3, %m2;"
    yield f"mov.u32 %s38, %nctaid.x; mul.wide.u32 %m4, %s38, {THREADS_BURN * 16}; mov.u32 %s39, 0;"
    for word in range(4 * loads):
        yield f"mov.u32 %s{word}, {_stream_word(word):#x};"


def _stream(loads: int) -> Iterator[str]:
    """Verify the words loaded one round ago, and load the next: no thread waits for memory."""
    yield from _stream_compare(loads)
    for load in range(loads):
        words = ",".join(f"%s{4 * load + i}" for i in range(4))
        yield f"add.u64 %m5, %m1, %m3; ld.global.v4.u32 {{{words}}}, [%m5];"
        yield "add.u64 %m3, %m3, %m4; and.b64 %m3, %m3, %m2;"


def _stream_compare(loads: int) -> Iterator[str]:
    for word in range(4 * loads):
        yield f"xor.b32 %s{word}, %s{word}, {_stream_word(word):#x}; or.b32 %s39, %s39, %s{word};"


def _stream_end(loads: int) -> Iterator[str]:
    """Count a thread that read anything wrong as one more error."""
    yield from _stream_compare(loads)
    yield "setp.ne.u32 %p5, %s39, 0; @%p5 add.u32 %r9, %r9, 1;"


def _stream_word(word: int) -> int:
    """Return the word that `fill` writes with a step of zero."""
    return STREAM_PATTERN ^ 0xFFFFFFFF if word % 2 else STREAM_PATTERN


def _spoil(first: str) -> list[str]:
    """Corrupt one sum of the first thread on request, to prove that it is detected."""
    return [
        "cvt.u32.u64 %r10, %d3; mov.u32 %r11, %ctaid.x; or.b32 %r11, %r11, %r1;",
        "setp.ne.u32 %p1, %r10, 0; setp.eq.and.u32 %p1, %r11, 0, %p1;",
        f"@%p1 add.f32 {first}, {first}, 0f3F800000;",
    ]


def _compare(total: str, place: str, depth: int, number: int) -> list[str]:
    """Compute the expected sum after all rounds, one product, and count a difference."""
    return [
        place,
        # Unrolled, a hundred of these would leave no registers for the sums.
        f'mov.u32 %r12, 0; mov.u32 %r13, 0; D{number}: .pragma "nounroll";',
        _value("%r14", "%r10", "%r12", left=True),
        _value("%r15", "%r11", "%r12", left=False),
        "mad.lo.s32 %r13, %r14, %r15, %r13; add.u32 %r12, %r12, 1;",
        f"setp.lt.u32 %p1, %r12, {depth};",
        f"@%p1 bra D{number};",
        "cvt.rn.f32.s32 %f129, %r13;",
        f"setp.neu.f32 %p2, {total}, %f129; @%p2 add.u32 %r9, %r9, 1;",
    ]
