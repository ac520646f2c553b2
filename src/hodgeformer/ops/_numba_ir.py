"""Pieces of LLVM vector code that the compiled loops are put together from.

Vectors are 64 bytes; LLVM splits them on processors with shorter ones, so nothing here depends on the
processor. Products and sums that may be fused or reordered carry exactly the flags for it, and none that
would change how NaN and infinity travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

VECTOR_BYTES = 64
I32, I64 = ir.IntType(32), ir.IntType(64)
FUSE = ("reassoc", "contract")
GROUP = 8
"""Neighbors whose dot products are reduced together; terms and indices of a row are padded to this."""


class RowShape:
    """How one row of `width` numbers is cut into vectors: the longest power of two that divides it."""

    def __init__(self, width: int, bits: int) -> None:
        self.real = ir.FloatType() if bits == 32 else ir.DoubleType()
        self.size = bits // 8
        self.lanes = min(VECTOR_BYTES // self.size, width & -width)
        self.parts = width // self.lanes
        self.vector = ir.VectorType(self.real, self.lanes)

    def load(self, builder: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
        """The vectors of the row at an address."""
        starts = [I64(part * self.lanes) for part in range(self.parts)]
        return [load(builder, address, start, self.vector) for start in starts]

    def gather(self, builder: ir.IRBuilder, rows: ir.Value, step: ir.Value, index: ir.Value) -> list[ir.Value]:
        """The vectors of the index-th row, `step` bytes apart."""
        return self.load(builder, builder.add(rows, builder.mul(builder.zext(index, I64), step)))

    def splat_float64(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """A float64 argument in every lane, in the row's precision."""
        narrow = builder.fptrunc(value, self.real) if self.size == 4 else value
        return splat(builder, narrow, self.lanes)


def loop(
    builder: ir.IRBuilder,
    bounds: tuple[ir.Value, ir.Value],
    stride: int,
    start: Sequence[ir.Value],
    body: Callable[[ir.Value, Sequence[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """for t in range(*bounds, stride): carried = body(t, carried); what is carried stays in registers."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    t = builder.phi(I64)
    carried = [builder.phi(value.type) for value in start]
    builder.cbranch(builder.icmp_signed("<", t, bounds[1]), inside, after)
    builder.position_at_end(inside)
    values = body(t, carried)
    following = builder.add(t, I64(stride))
    last = builder.block
    builder.branch(head)
    for phi, first, value in zip([t, *carried], [bounds[0], *start], [following, *values], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, last)
    builder.position_at_end(after)
    return carried


def sum_lanes_of_group(builder: ir.IRBuilder, leaf: Callable[[int], ir.Value], group: int, lanes: int) -> ir.Value:
    """The lane sums of `group` vectors, one lane each and in order: a tree that folds two vectors into one."""

    def folded(slot: int, stride: int) -> ir.Value:
        if stride == group:
            return leaf(slot)
        first, second = folded(slot, 2 * stride), folded(slot + stride, 2 * stride)
        block = lanes * stride // group
        starts = range(0, lanes, 2 * block)
        low = [c + i + side * lanes for c in starts for side in (0, 1) for i in range(block)]
        return builder.fadd(*_two_halves(builder, first, second, low, block))

    total = folded(0, 1)
    while lanes > group:
        total = builder.fadd(*_two_halves(builder, total, total, range(0, lanes, 2), 1))
        lanes //= 2
    return total


def fold_lanes(builder: ir.IRBuilder, vector: ir.Value, combine: Callable[..., ir.Value]) -> ir.Value:
    """All lanes of a vector combined into one number, halves first."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        vector = combine(*_two_halves(builder, vector, vector, range(lanes), lanes))
    return builder.extract_element(vector, I32(0))


def _two_halves(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, low: Sequence[int], shift: int) -> list[ir.Value]:
    return [shuffle(builder, a, b, [lane + by for lane in low]) for by in (0, shift)]


def shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The chosen lanes of a followed by b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    return shuffle(builder, builder.insert_element(vector, value, I32(0)), vector, [0] * lanes)


def load(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, item: ir.Type) -> ir.Value:
    """The number, or the vector, that starts at the index-th number after an address."""
    return builder.load(_pointer(builder, base, index, item), align=_size(item))


def store(builder: ir.IRBuilder, value: ir.Value, base: ir.Value, index: ir.Value) -> None:
    builder.store(value, _pointer(builder, base, index, value.type), align=_size(value.type))


def _pointer(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, item: ir.Type) -> ir.Value:
    number = item.element if isinstance(item, ir.VectorType) else item
    at = builder.gep(builder.inttoptr(base, number.as_pointer()), [index])
    return builder.bitcast(at, item.as_pointer())


def _size(item: ir.Type) -> int:
    """Bytes of one number, which is all the alignment that rows of a tensor have."""
    number = item.element if isinstance(item, ir.VectorType) else item
    return 8 if isinstance(number, ir.DoubleType) or number == I64 else 4
