"""Write an ONNX graph like equations: calling a `Graph` adds a node and returns the name of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from torch import Tensor

from hodgeformer.predict.exported import INPUTS

OPSET, IR_VERSION = 18, 10  # from 2022 and 2024, for compatibility with older runtimes
_TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


class Graph:
    """Nodes in the order of execution. The body of a loop shares constants, inputs and the numbering of names."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: dict[tuple[Any, ...], TensorProto] = {}
        self._inputs: dict[str, ValueInfoProto] = {}
        self._numbers: Iterator[int] = count()

    def __call__(self, operator: str, *arguments: str, **attributes: Any) -> str:
        result = f"{operator}_{next(self._numbers)}"
        self._nodes.append(helper.make_node(operator, arguments, [result], **attributes))
        return result

    def input(self, name: str) -> str:
        """An input of the graph, declared on first use, so that a graph has no unused inputs."""
        kind, shape = INPUTS[name]
        self._inputs.setdefault(name, helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return name

    def constant(self, value: Tensor | NDArray[Any] | float | int | Sequence[int]) -> str:
        """A weight or a number; integers are int64, like shapes and axes, others float32."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = array.astype(np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"constant_{len(self._constants)}")
        return self._constants[key].name

    def column(self, table: str, k: int) -> str:
        """table[:, k]."""
        return self("Gather", table, self.constant(k), axis=1)

    def reshape(self, x: str, *shape: int) -> str:
        return self("Reshape", x, self.constant(shape))

    def total(self, x: str, axis: int, *, keep: bool = False) -> str:
        """The sum over an axis."""
        return self("ReduceSum", x, self.constant([axis]), keepdims=int(keep))

    def mapped(self, body: Callable[..., str], *tables: str) -> str:
        """body(graph, *chunks) for each chunk of the input tables, one after another: (chunks, ...)."""
        inner = self._inner()
        given = [f"chunk_{next(self._numbers)}" for _ in tables]
        result = body(inner, *given)
        types = [self._inputs[table].type.tensor_type.elem_type for table in tables]
        infos = [helper.make_tensor_value_info(*pair, None) for pair in zip(given, types, strict=True)]
        end = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        proto = helper.make_graph(inner._nodes, "chunk", infos, [end])
        return self("Scan", *tables, body=proto, num_scan_inputs=len(tables))

    def loop(self, body: Callable[..., tuple[str, ...]], n_times: str, *carried: str) -> list[str]:
        """carried = body(graph, i, *carried) for i < n_times; it may contain sequences that start empty."""
        inner = self._inner()
        i, proceed = (f"{name}_{next(self._numbers)}" for name in ("i", "proceed"))
        given = [f"carried_{next(self._numbers)}" for _ in carried]
        results = body(inner, i, *given)
        infos = [
            helper.make_tensor_value_info(i, TensorProto.INT64, []),
            helper.make_tensor_value_info(proceed, TensorProto.BOOL, []),
            *map(_info, given, carried),
        ]
        ends = [
            helper.make_tensor_value_info(inner("Identity", proceed), TensorProto.BOOL, []),
            *map(_info, results, carried),
        ]
        proto = helper.make_graph(inner._nodes, "step", infos, ends)
        outputs = [f"Loop_{next(self._numbers)}" for _ in carried]
        self._nodes.append(helper.make_node("Loop", [n_times, "", *carried], outputs, body=proto))
        return outputs

    def model(self, **outputs: tuple[str, tuple[str | int, ...]]) -> ModelProto:
        """The complete model, with outputs by name, each a result and its shape."""
        for name, (value, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, (_, shape) in outputs.items()]
        graph = helper.make_graph(self._nodes, "hodgeformer", list(self._inputs.values()), infos)
        graph.initializer.extend(self._constants.values())
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="hodgeformer")

    def _inner(self) -> Graph:
        inner = Graph()
        inner._constants, inner._inputs, inner._numbers = self._constants, self._inputs, self._numbers
        return inner


def _info(name: str, like: str) -> ValueInfoProto:
    """The type of a result: numbers, or a sequence of them if `like` is one that starts empty."""
    if like.startswith("SequenceEmpty"):
        return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
