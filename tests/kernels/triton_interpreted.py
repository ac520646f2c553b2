"""Run the Triton kernels in Triton's interpreter, which must be on before triton is imported: see test_triton.py.

Prints, as JSON, how far the output and every gradient lie from the reference, for each case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import torch

from hodgeformer.kernels import _triton
from star_problems import Problem, largest_difference

_empty = torch.empty


def poisoned(*size: object, **options: object) -> torch.Tensor:
    """Whatever a kernel forgets to write stays NaN."""
    return _empty(*size, **options).fill_(torch.nan)  # type: ignore[call-overload]


def cases() -> Iterator[tuple[str, Problem, float]]:
    for d in (16, 24, 64):
        yield f"d={d}", Problem.random(n=11, longest=11, d=d), 0.0
    yield "d_y=8", Problem.random(n=11, longest=11, d=16, d_y=8), 0.0
    yield "dropout", Problem.random(n=11, longest=11, d=16), 0.4
    strided = Problem.random(n=11, longest=11, d=16)
    fused = torch.cat([strided.q, strided.k, strided.y], 1).flatten(1).float()
    q, k, y = (part.unflatten(1, (2, 16)) for part in fused.split(32, 1))
    yield "strided", replace(strided, q=q, k=k, y=y), 0.0


if __name__ == "__main__":
    torch.empty = poisoned
    _triton.BLOCK = 4  # so that rows of one to eleven neighbors take one to three rounds
    found: dict[str, float] = {}
    for name, problem, dropout in cases():
        expected = problem.to(torch.float64).solve("reference", dropout=dropout, seed=7)
        result = problem.to(torch.float32).solve("triton", dropout=dropout, seed=7)
        found[name] = largest_difference(result, expected)
    half = Problem.random(n=11, longest=11, d=16).to(torch.bfloat16)
    found["bfloat16"] = largest_difference(half.solve("triton"), half.to(torch.float64).solve("reference"))
    print(json.dumps(found))  # noqa: T201
