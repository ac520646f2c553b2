"""The GPU kernels on the CPU, in Triton's interpreter and therefore in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clock import PATIENCE

HERE = Path(__file__).parent
CASES = ("d=16", "d=24", "d=64", "d_y=8", "dropout", "strided", "bfloat16")


@pytest.fixture(scope="module")
def differences() -> dict[str, float]:
    pytest.importorskip("triton", reason="triton is not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "triton_interpreted.py")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("case", CASES)
def test_equals_the_reference(differences: dict[str, float], case: str) -> None:
    assert set(differences) == set(CASES)
    assert differences[case] < (2e-2 if case == "bfloat16" else 3e-6)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("kernel", ["forward", "by_row", "by_column"])
def test_compiles_for_a_gpu_that_is_not_here(kernel: str) -> None:
    """The interpreter is lenient about types; the compiler is not."""
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from hodgeformer.kernels import _triton_kernels

    function = getattr(_triton_kernels, kernel)
    constants = {"H": 4, "D": 24, "DY": 24, "COLS": 32, "COLS_Y": 32, "BLOCK": 32, "DROP": True}
    special = {"offsets": "*i64", "indices": "*i32", "rows": "*i32", "lse": "*fp32", "delta": "*fp32"}
    numbers = {"scale": "fp32", "keep_scale": "fp32", "key": "i64", "threshold": "i32"}
    known = {**special, **numbers, **dict.fromkeys(constants, "constexpr")}
    names = function.arg_names
    signature = {name: known.get(name, "i32" if name.endswith("_step") else "*bf16") for name in names}
    source = ASTSource(function, signature, {(names.index(name),): value for name, value in constants.items()})
    assert "cubin" in triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm
