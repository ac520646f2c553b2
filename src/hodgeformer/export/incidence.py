"""How values move between elements in a graph: rows of x are elements, with all frames side by side.

Nothing is added by scattering: onnxruntime adds to the same row from several threads at once and loses some. Every sum
over neighbors is a sum over the columns of a table, a chunk of columns at a time, so that nothing of size n x s x d is
gathered where it is large.
"""

from __future__ import annotations

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind
from hodgeformer.export.graph import Graph


def wide(g: Graph, x: str, kind: ElementKind) -> str:
    """(n frames, d) as (n, frames d), a row per element, with the features of its frames side by side."""
    return g("Reshape", x, g("Concat", number(g, kind), g.constant([-1]), axis=0))


def narrow(g: Graph, x: str, d: int) -> str:
    """The inverse of `wide`: a row for each element and frame."""
    return g.reshape(x, -1, d)


def number(g: Graph, kind: ElementKind) -> str:
    """(1,): how many elements of a kind there are."""
    return g("Shape", g.input(f"x_{kind}"), start=0, end=1)


def members(g: Graph, x: str, table: str, k: int, signs: str | None = None) -> str:
    """Over the k members of each element in a table: the sum of x, or of sign times x. k gathers of columns."""
    total = ""
    for i in range(k):
        part = g("Gather", x, g.column(g.input(table), i), axis=0)
        if signs is not None:
            part = g("Mul", part, g("Unsqueeze", g.column(g.input(signs), i), g.constant([1])))
        total = g("Add", total, part) if total else part
    return total


def summed(g: Graph, x: str, source: ElementKind, target: ElementKind, *, signed: bool) -> str:
    """For each target element the sum of x, or of sign times x, over the source elements that it belongs to."""

    def chunk(inner: Graph, index: str, sign: str) -> str:
        weights = inner("Unsqueeze", sign if signed else inner("Abs", sign), inner.constant([1]))
        total = inner("MatMul", weights, inner("Gather", x, index, axis=0))  # (rows, 1, s) (rows, s, d)
        return inner("Squeeze", total, inner.constant([1]))

    return unchunked(g, g.mapped(chunk, *(g.input(name) for name in transposed(source, target))), target)


def transposed(source: ElementKind, target: ElementKind) -> tuple[str, str]:
    """The inputs with the source elements of each target element, and their signs."""
    one, other = ELEMENT_NAMES[source], ELEMENT_NAMES[target]
    return f"{one}s_of_{other}", f"{one}_signs_of_{other}"


def unchunked(g: Graph, chunks: str, kind: ElementKind) -> str:
    """(chunks, rows, d) as (n, d): the last chunk may have extra rows."""
    shape = g("Concat", g.constant([-1]), g("Shape", chunks, start=2), axis=0)
    return g("Slice", g("Reshape", chunks, shape), g.constant([0]), number(g, kind))


def counted(g: Graph, source: ElementKind, target: ElementKind) -> str:
    """(n, 1): how many source elements each target element belongs to."""
    signs = g("Abs", g.input(transposed(source, target)[1]))
    return unchunked(g, g.total(signs, 2, keep=True), target)


def d0(g: Graph, x: str) -> str:
    """x_head - x_tail."""
    edges = g.input("edges")
    return g("Sub", g("Gather", x, g.column(edges, 1), axis=0), g("Gather", x, g.column(edges, 0), axis=0))


def d0_t(g: Graph, y: str) -> str:
    return summed(g, y, "e", "v", signed=True)


def d1(g: Graph, x: str) -> str:
    return members(g, x, "face_edges", 3, "face_signs")


def d1_t(g: Graph, y: str) -> str:
    return summed(g, y, "f", "e", signed=True)


def around(g: Graph, x: str, kind: ElementKind) -> str:
    """A x: the mean over adjacent elements."""
    if kind == "v":
        count = counted(g, "e", "v")
        through = summed(g, members(g, x, "edges", 2), "e", "v", signed=False)
        total = g("Sub", through, g("Mul", count, x))
    else:
        table, k = ("edges", 2) if kind == "e" else ("face_edges", 3)
        below: ElementKind = "v" if kind == "e" else "e"
        count = g("Sub", members(g, counted(g, kind, below), table, k), g.constant(float(k)))
        through = members(g, summed(g, x, kind, below, signed=False), table, k)
        total = g("Sub", through, g("Mul", g.constant(float(k)), x))
    return g("Div", total, g("Max", count, g.constant(1.0)))


def carried(g: Graph, x: str, source: ElementKind, target: ElementKind) -> str:
    """For each target element the mean of x over the incident source elements."""
    if source == target:
        return x
    upward = {"ve": ("edges", 2), "vf": ("faces", 3), "ef": ("face_edges", 3)}
    if source + target in upward:
        table, k = upward[source + target]
        return g("Div", members(g, x, table, k), g.constant(float(k)))
    total, count = summed(g, x, source, target, signed=False), counted(g, source, target)
    return g("Div", total, g("Max", count, g.constant(1.0)))
