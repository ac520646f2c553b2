"""Problems of a mesh. Nothing here is fatal: every triangle soup that loads can be checked and used."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.geometry import face_vectors, norms
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex, component_numbers, repeats_a_vertex

# Twice the area over the square of the longest side: below this a triangle is a line in float64.
FLAT = 1e-12
# Distance from the origin over size: beyond this, float32 coordinates lose the shape.
FAR = 1e4


@dataclass(frozen=True)
class MeshReport:
    """Counts of the elements and problems of a mesh. Faces that repeat a vertex have no edges and no component.

    `n_boundary_edges` have one face, `n_nonmanifold_edges` three or more, `n_flipped_edges` two that disagree
    in winding. `euler_characteristic` is v - e + f without unreferenced vertices and repeating faces.
    `size` is the bounding box of the vertices that faces use. `columns` are those of the mesh, with their element.
    """

    name: str
    n_vertices: int
    n_edges: int
    n_faces: int
    n_components: int
    n_boundary_edges: int
    n_nonmanifold_edges: int
    n_flipped_edges: int
    n_repeating_faces: int
    n_zero_area_faces: int
    n_duplicate_faces: int
    n_unreferenced_vertices: int
    euler_characteristic: int
    area: float
    size: tuple[float, float, float]
    center: tuple[float, float, float]
    notes: tuple[str, ...]
    columns: dict[str, str]

    @property
    def winding_consistent(self) -> bool:
        return self.n_flipped_edges == 0

    @property
    def closed(self) -> bool:
        return self.n_boundary_edges == 0

    @property
    def diagonal(self) -> float:
        return math.hypot(*self.size)

    @property
    def oddities(self) -> list[str]:
        """The problems in words; empty for a closed, clean surface in one piece."""
        counted = [
            (self.n_boundary_edges, "boundary edge", "boundary edges"),
            (self.n_nonmanifold_edges, "non-manifold edge", "non-manifold edges"),
            (self.n_flipped_edges, "edge where the winding changes", "edges where the winding changes"),
            (self.n_repeating_faces, "face that repeats a vertex", "faces that repeat a vertex"),
            (self.n_zero_area_faces, "face without area", "faces without area"),
            (self.n_duplicate_faces, "duplicate face", "duplicate faces"),
            (self.n_unreferenced_vertices, "unreferenced vertex", "unreferenced vertices"),
            (self.n_components if self.n_components > 1 else 0, "component", "components"),
        ]
        odd = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
        if self.diagonal == 0:
            odd.append("all vertices are at the same position")
        elif math.hypot(*self.center) > FAR * self.diagonal:
            odd.append("far from the origin relative to its size")
        return odd

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON (an area too large for a float is null)."""
        more = {"winding_consistent": self.winding_consistent, "closed": self.closed, "diagonal": self.diagonal}
        area = self.area if math.isfinite(self.area) else None
        return asdict(self) | more | {"area": area, "oddities": self.oddities}


def check_mesh(mesh: MeshLike) -> MeshReport:
    """Count the elements and problems of a mesh."""
    mesh = as_mesh(mesh)
    repeating = repeats_a_vertex(mesh.faces)
    faces = mesh.faces[~repeating]
    topology = MeshComplex.from_faces(faces, mesh.n_vertices)
    faces_of_edge = np.bincount(topology.face_edges.ravel(), minlength=topology.n.e)
    turns = np.bincount(topology.face_edges.ravel(), topology.face_signs.ravel(), minlength=topology.n.e)
    used = np.unique(mesh.faces)
    low, high = mesh.vertices[used].min(axis=0), mesh.vertices[used].max(axis=0)
    # Squares of very large or small coordinates are outside the range of float64.
    unit = float(np.abs([low, high]).max()) or 1.0
    areas = norms(face_vectors(mesh.vertices / unit, faces)) / 2
    return MeshReport(
        name=mesh.name,
        n_vertices=mesh.n_vertices,
        n_edges=topology.n.e,
        n_faces=mesh.n_faces,
        n_components=len(np.unique(component_numbers(topology.edges, mesh.n_vertices)[topology.edges[:, 0]])),
        n_boundary_edges=int((faces_of_edge == 1).sum()),
        n_nonmanifold_edges=int((faces_of_edge > 2).sum()),
        n_flipped_edges=int(((faces_of_edge == 2) & (turns != 0)).sum()),
        n_repeating_faces=int(repeating.sum()),
        n_zero_area_faces=int(_without_area(mesh.vertices / unit, faces, areas).sum()),
        n_duplicate_faces=_duplicates(faces),
        n_unreferenced_vertices=mesh.n_vertices - len(used),
        euler_characteristic=len(np.unique(faces)) - topology.n.e + len(faces),
        area=float(areas.sum()) * unit * unit,
        size=_triple(high - low),
        center=_triple(low / 2 + high / 2),
        notes=mesh.notes,
        columns={name: element for name, (element, _) in mesh.found_columns.items()},
    )


def _duplicates(faces: IntArray) -> int:
    """Faces with the same three vertices as an earlier one, in any winding."""
    rows = np.sort(faces, axis=1)
    rows = rows[np.lexsort(rows.T)]
    return int((rows[1:] == rows[:-1]).all(axis=1).sum())


def _without_area(vertices: FloatArray, faces: IntArray, areas: FloatArray) -> NDArray[np.bool_]:
    corners = vertices[faces]
    sides = corners - np.roll(corners, 1, axis=1)
    longest = (sides * sides).sum(axis=2).max(axis=1, initial=0.0)
    return np.asarray(2 * areas <= FLAT * longest, np.bool_)


def _triple(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
