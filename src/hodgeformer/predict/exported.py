"""Exported models, run by onnxruntime and NumPy without torch.

The inputs of an exported graph are the plain arrays `INPUTS` of one prepared mesh of any size. All searching, sorting
and elimination happens here, before the graph runs: patterns, transposed incidences, and the steps of spreading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import CheckpointError, ConfigError, MeshError
from hodgeformer.base.machine import thread_count
from hodgeformer.base.version import __version__
from hodgeformer.kernels.elimination import Elimination, Laplacian
from hodgeformer.kernels.sweeps import Steps
from hodgeformer.mesh.geometry import LEAST_SINE, cross, norms, unit
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.config import ModelConfig
from hodgeformer.predict.inference import Output, Views
from hodgeformer.predict.model_info import ModelInfo

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Array = NDArray[Any]

FORMAT = 3
KEY = "hodgeformer"
"""The metadata entry that contains the settings of the model."""
_CHUNK = 2**19  # numbers that are gathered at once
_MOST_AT_ONCE = 2**19  # numbers of all vertices of the frames that run together
_MOST_ENTRIES = 2**28  # of a table whose rows are padded to the longest one

_TABLES: dict[str, dict[str, str]] = {
    "vertex": {"edges": "int32", "edge_signs": "float32", "faces": "int32", "face_signs": "float32"},
    "edge": {"faces": "int32", "face_signs": "float32"},
}
STEP_TABLES = {"inner": 32, "outer": 32, "changed": 64, "sources": 32, "outside": 32, "reached": 64, "origins": 32}
"""The tables of `kernels.sweeps.Steps`, and the bits of their numbers: places to write to have to have 64."""
INPUTS: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "x_v": ("float32", ("n_v", "frames", "c_v")),
    "x_e": ("float32", ("n_e", "c_e")),
    "x_f": ("float32", ("n_f", "c_f")),
    "edges": ("int32", ("n_e", 2)),
    "faces": ("int32", ("n_f", 3)),
    "face_edges": ("int32", ("n_f", 3)),
    "face_signs": ("float32", ("n_f", 3)),
    **{
        f"{name}_of_{of}": (kind, (f"chunks_{of}_{name[0]}", f"rows_{of}_{name[0]}", f"{name[:4]}s_of_{of}"))
        for of, names in _TABLES.items()
        for name, kind in names.items()
    },
    "directions_e": ("float32", ("n_e", 3)),
    "directions_f": ("float32", ("n_f", 3)),
    "masses": ("float32", ("n_v",)),
    "edge_weights": ("float32", ("n_e",)),
    **{f"pattern_{k}": ("int32", (f"chunks_{k}", f"rows_{k}", f"s_{k}")) for k in KINDS},
    **{f"rows_of_pattern_{k}": ("int32", (f"chunks_{k}", f"rows_{k}")) for k in KINDS},
    "step_entries": ("int32", ("n_entries",)),
    "step_vertices": ("int32", ("n_slots",)),
    "step_slots": ("int32", ("n_v",)),
    "step_shapes": ("int64", ("n_steps", 4)),
    **{f"step_{name}": (f"int{bits}", (f"n_{name}",)) for name, bits in STEP_TABLES.items()},
    **{f"step_{name}_lengths": ("int64", ("n_steps",)) for name in STEP_TABLES},
}
"""Type and shape of all inputs a graph may have; names in shapes are free dimensions.

`x_*` are the features in canonical order, those of vertices once per frame; `edges` (tail, head), `faces` and
`face_edges` are element numbers, and `face_signs` are the directions in which a face traverses its edges. The tables
`*_of_vertex` and `*_of_edge` are the transposed incidences, a row per element, padded with signs of zero and cut into
chunks of rows, of which the last may have extra rows. Patterns are likewise padded with -1, and come with the row
numbers of their chunks. `directions_*` are those of edges and the normals of faces, of length one or zero. `masses` and
`edge_weights` belong to the Laplacian, and `step_*` are the steps of its elimination, `kernels.sweeps.Steps`.
"""


class GraphInputs(Mapping[str, Array]):
    """The `INPUTS` of one prepared mesh, each computed on first use.

    `width` is the width of the gathered rows and determines the size of chunks; without it there is one chunk.
    """

    def __init__(self, mesh: PreparedMesh, width: int = 0) -> None:
        self._mesh, self._width, self._made = mesh, width, dict[str, Array]()

    def __iter__(self) -> Any:
        return iter(INPUTS)

    def __len__(self) -> int:
        return len(INPUTS)

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            made = {name: value} if isinstance(value := self._make(name), np.ndarray) else value
            self._made |= {key: np.ascontiguousarray(array, INPUTS[key][0]) for key, array in made.items()}
        return self._made[name]

    def _make(self, name: str) -> Array | dict[str, Array]:
        """The array, or several that are computed together."""
        mesh, topology = self._mesh, self._mesh.topology
        kind: Any = name[-1]
        if name.startswith("x_"):
            return mesh.x_in.v[:, None] if kind == "v" else mesh.x_in[kind]
        if "pattern_" in name:
            pattern = mesh.patterns[kind]
            table = self._chunked(_table(pattern.indices, np.diff(pattern.offsets), fill=-1))
            rows = np.minimum(np.arange(table.shape[0] * table.shape[1]), len(pattern) - 1)
            return {f"pattern_{kind}": table, f"rows_of_pattern_{kind}": rows.reshape(table.shape[:2])}
        if name.endswith("_of_vertex") and name.startswith("edge"):
            signs = np.broadcast_to(np.array([-1, 1]), topology.edges.shape)
            return self._transposed("edge", "vertex", topology.edges, signs, mesh.n.v)
        if name.endswith("_of_vertex"):
            return self._transposed("face", "vertex", topology.faces, np.ones_like(topology.faces), mesh.n.v)
        if name.endswith("_of_edge"):
            return self._transposed("face", "edge", topology.face_edges, topology.face_signs, mesh.n.e)
        if name.startswith("directions_"):
            return self._directions(kind)
        if name in ("masses", "edge_weights"):
            return getattr(self._laplacian, name)  # type: ignore[no-any-return]
        return self._steps if name.startswith("step_") else getattr(topology, name)

    def _directions(self, kind: str) -> Array:
        """Of edges, or the normals of faces; zero where there is none."""
        topology, corners = self._mesh.topology, self._positions
        if kind == "e":
            tail, head = corners[topology.edges.T]
            return unit(head - tail)
        a, b, c = corners[topology.faces.T]
        normals = cross(b - a, c - a)
        normals[norms(normals) <= LEAST_SINE * norms(b - a) * norms(c - a)] = 0.0
        return unit(normals)

    @property
    def _positions(self) -> FloatArray:
        return self._mesh.positions.astype(np.float32).astype(np.float64)  # as PyTorch's path rounds them

    @cached_property
    def _laplacian(self) -> Laplacian:
        topology = self._mesh.topology
        return Laplacian.from_surface(self._positions, topology.faces, topology.edges, topology.face_edges)

    @property
    def _steps(self) -> dict[str, Array]:
        steps = Steps.of(Elimination.of(self._laplacian), self._laplacian)
        made = {f"step_{name}": table for name, table in steps.tables.items()}
        made |= {f"step_{name}_lengths": lengths for name, lengths in steps.lengths.items()}
        return made | {f"step_{name}": getattr(steps, name) for name in ("entries", "vertices", "slots", "shapes")}

    def _transposed(self, source: str, target: str, members: Array, signs: Array, n: int) -> dict[str, Array]:
        """For each of n target elements the source elements that contain it, and its signs in them."""
        lengths = np.bincount(members.ravel(), minlength=n)
        if n * int(lengths.max()) > _MOST_ENTRIES:
            raise MeshError(
                f"{self._mesh.name}: a {target} has {lengths.max():,} {source}s, too many for an exported model; set a "
                "smaller number of faces"
            )
        order = np.argsort(members.ravel(), kind="stable")
        return {
            f"{source}s_of_{target}": self._chunked(_table(order // members.shape[1], lengths, fill=0)),
            f"{source}_signs_of_{target}": self._chunked(_table(signs.ravel()[order], lengths, fill=0)),
        }

    def _chunked(self, table: Array) -> Array:
        """(n, s) cut into chunks of rows, so that what a chunk gathers fits in the processor cache."""
        n, s = table.shape
        n_chunks = -(-n // max(1, _CHUNK // (s * self._width))) if self._width else 1
        rows = -(-n // n_chunks)
        return np.pad(table, ((0, n_chunks * rows - n), (0, 0))).reshape(n_chunks, rows, s)


def _table(values: Array, lengths: Array, *, fill: int) -> Array:
    """Consecutive ragged rows of these lengths, padded to the longest."""
    table = np.full((len(lengths), int(lengths.max()), *values.shape[1:]), fill, dtype=values.dtype)
    table[np.arange(table.shape[1]) < lengths[:, None]] = values
    return table


class OnnxNetwork:
    """A `Network`, run by onnxruntime: one mesh at a time."""

    def __init__(self, config: ModelConfig, session: InferenceSession) -> None:
        self.config, self._session = config, session
        self._names = tuple(given.name for given in session.get_inputs())

    def outputs(self, prepared: Sequence[PreparedMesh], views: Views) -> list[tuple[Output, Output]]:
        """The rows of each view, and the means of its features."""
        return [self._output(view, views) for view in prepared]

    def _output(self, view: PreparedMesh, views: Views) -> tuple[Output, Output]:
        signs = [np.stack([frame[kind] for frame in views.column_signs]).astype(np.float32) for kind in ("v", "e")]
        # A graph has the features of vertices for several frames, and those of edges for one.
        room = 1 if "x_e" in self._names else max(1, _MOST_AT_ONCE // (view.n.v * self.config.d_model))
        parts = [np.array_split(of_kind, -(-views.n_frames // room)) for of_kind in signs]
        inputs = GraphInputs(view, len(parts[0][0]) * self.config.d_model)
        passes = []
        for of_v, of_e in zip(*parts, strict=True):
            turned = {"x_v": view.x_in.v[:, None] * of_v}
            if "x_e" in self._names:
                turned["x_e"] = view.x_in.e * of_e[0]
            passes.append(self.run(inputs, **turned))
        rows = np.concatenate([rows for rows, _ in passes], axis=1)
        features = np.concatenate([features for _, features in passes])
        kind = self.config.target_kind
        found, expected = rows.shape[::2], (1 if kind is None else view.n[kind], self.config.n_classes)
        if found != expected:
            raise CheckpointError(f"the model answers {found}, not {expected}; export it again")
        if self.config.task != "regression":
            rows = np.exp(rows - rows.max(axis=2, keepdims=True))
            rows /= rows.sum(axis=2, keepdims=True)
        return rows.mean(axis=1), features.mean(axis=0)

    def run(self, inputs: Mapping[str, Array], **changes: Array) -> tuple[Output, Output]:
        """Rows of logits, or of values, (n, frames, .), and the means of the features, (frames, .)."""
        feed = {name: changes[name] if name in changes else inputs[name] for name in self._names}
        try:
            rows, features = self._session.run(("rows", "features"), feed)
        except Exception as error:  # onnxruntime raises many different exceptions
            reason = str(error).splitlines()[0]
            raise CheckpointError(f"onnxruntime cannot run this model ({reason:.200}); export it again") from None
        return rows, features


def load_exported(file: str | os.PathLike[str]) -> tuple[ModelInfo, OnnxNetwork]:
    """Load a file that `hodgeformer export` wrote."""
    if not Path(file).is_file():
        raise CheckpointError(f"{file}: the file does not exist")
    session = onnx_session(file)
    try:
        metadata = session.get_modelmeta().custom_metadata_map
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{file}: the metadata of the model is damaged ({error})") from None
    info = _settings(Path(file), metadata)
    return info, OnnxNetwork(info.model, session)


def onnx_session(model: str | os.PathLike[str] | bytes) -> InferenceSession:
    """A session on the CPU for a file or its content."""
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError("exported models need onnxruntime: pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.log_severity_level = 4  # errors are raised, not logged
    given = model if isinstance(model, bytes) else os.fspath(model)
    try:
        # The fallback would print that it tries the same provider once more.
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime raises many different exceptions
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{given!s:.200}: not a model that onnxruntime can read ({reason})") from None


def _settings(file: Path, metadata: Mapping[str, str]) -> ModelInfo:
    """The settings in an exported file."""
    if KEY not in metadata:
        raise CheckpointError(f"{file}: this model was not written by `hodgeformer export`")
    try:
        content = json.loads(metadata[KEY])
        found = content.pop("format")
        if found > FORMAT:
            raise CheckpointError(
                f"{file}: export format {found} is newer than this hodgeformer ({__version__}, format {FORMAT}); "
                "update hodgeformer"
            )
        if found < FORMAT:
            raise CheckpointError(f"{file}: export format {found} of an older hodgeformer; export the model again")
        return ModelInfo.parse(content).replace(path=file)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise CheckpointError(f"{file}: the settings in the exported model are invalid ({error})") from None
