"""The paper's mutations of a test mesh, and some of our own. Each uses only the random generator it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import random_rotation
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.subdivision import subdivided

PATCH_FACES = (8, 15)


@dataclass(frozen=True, eq=False)
class Mutated:
    """A changed mesh.

    `in_place` are its vertices before any motion of the whole, where the nearest original element is looked up.
    `origin` is the original face that each face is, or is a piece of; None where that is lost.
    """

    mesh: Mesh
    in_place: FloatArray
    origin: IntArray | None

    @classmethod
    def of(cls, mesh: Mesh, origin: IntArray | None) -> Mutated:
        return cls(mesh, mesh.vertices, origin)


Change = Callable[[Mesh, np.random.Generator], Mutated]


@dataclass(frozen=True, eq=False)
class Mutation:
    """A named change; `paper` is the accuracy that the paper reports for it on Human, in percent.

    `takes_parts` if whole parts of the shape are missing afterwards.
    """

    name: str
    change: Change
    paper: float | None = None
    takes_parts: bool = False

    def __call__(self, mesh: Mesh, *, seed: int = 0) -> Mutated:
        """The changed mesh, the same for the same seed and name of mesh, whatever else is run."""
        key = [seed, crc32(self.name.encode()), crc32(mesh.name.encode())]
        return self.change(mesh, np.random.default_rng(key))


def unchanged(mesh: Mesh, rng: np.random.Generator) -> Mutated:
    return Mutated.of(mesh, np.arange(mesh.n_faces))


def gaussian_noise(mesh: Mesh, rng: np.random.Generator, level: float) -> Mutated:
    """Every vertex moves by Gaussian noise, `level` times the diagonal of the bounding box strong."""
    noise = level * diagonal(mesh) * rng.standard_normal(mesh.vertices.shape)
    return Mutated.of(mesh.with_vertices(mesh.vertices + noise), np.arange(mesh.n_faces))


def remesh(mesh: Mesh, rng: np.random.Generator, n_faces: int) -> Mutated:
    """About n_faces faces by quadric decimation; a mesh with too few is first subdivided until it has twice as many."""
    if n_faces < 4:
        raise MeshError(f"{mesh.name}: a surface of {n_faces} faces is too coarse to remesh to; ask for at least 4")
    fine = mesh
    while fine.n_faces <= n_faces or (fine is not mesh and fine.n_faces < 2 * n_faces):
        fine = subdivided(fine).mesh
    small = simplify(fine, n_faces, seed=0).mesh  # without a seed, subdivision would only be undone
    return Mutated.of(replace(small, notes=mesh.notes), None)


def without_faces(mesh: Mesh, removed: NDArray[np.bool_]) -> Mutated:
    """The mesh without some faces and without the vertices that only they used; at least one face remains."""
    kept = np.flatnonzero(~removed) if not removed.all() else np.zeros(1, np.int64)
    used, faces = np.unique(mesh.faces[kept], return_inverse=True)
    return Mutated.of(mesh.with_surface(mesh.vertices[used], faces.reshape(-1, 3)), kept)


def face_removal(mesh: Mesh, rng: np.random.Generator, share: float) -> Mutated:
    """Every face is removed with this probability."""
    return without_faces(mesh, rng.random(mesh.n_faces) < share)


def cut_away(mesh: Mesh, rng: np.random.Generator, share: float) -> Mutated:
    """A plane in a random direction cuts this share of the faces off."""
    return without_faces(mesh, _beyond_plane(mesh, share, rng))


def patch_removal(mesh: Mesh, rng: np.random.Generator, share: float, sizes: tuple[int, int] = PATCH_FACES) -> Mutated:
    """Every face is chosen with this probability, and the patch of its nearest faces, 8 to 15 of them, removed."""
    centers = np.flatnonzero(rng.random(mesh.n_faces) < share)
    wanted = rng.integers(sizes[0], sizes[1] + 1, len(centers))
    adjacency = _face_adjacency(mesh)
    gone = np.zeros(mesh.n_faces, dtype=bool)
    for center, size in zip(centers, wanted, strict=True):
        gone[_patch(adjacency, int(center), int(size))] = True
    return without_faces(mesh, gone)


def paired(mesh: Mesh, other: Mesh) -> Mesh:
    """Two meshes of one size beside each other, like a scan of two people."""
    sides = []
    for one in (mesh, other):
        low, high = one.vertices.min(axis=0), one.vertices.max(axis=0)
        sides.append((one.vertices - (low + high) / 2) / diagonal(one))
    gap = sides[0][:, 0].max() - sides[1][:, 0].min() + 0.05
    vertices = np.concatenate([sides[0], sides[1] + [gap, 0, 0]])
    return Mesh(vertices, np.concatenate([mesh.faces, other.faces + mesh.n_vertices]), f"{mesh.name} and {other.name}")


def limbs_cut_away(mesh: Mesh, rng: np.random.Generator, count: int, share: float = 0.06) -> Mutated:
    """`count` times a tip, farther from the middle than all around it, is cut off with the share of faces nearest to it
    along the surface."""
    at = face_centers(mesh.vertices, mesh.faces)
    far = np.linalg.norm(at - at.mean(axis=0), axis=1)
    paths = _face_adjacency(mesh).tocoo()
    paths.data = np.linalg.norm(at[paths.row] - at[paths.col], axis=1)
    paths, gone = csr_array(paths), np.zeros(mesh.n_faces, dtype=bool)
    for _ in range(count):
        # Among the farthest left, so that limbs go in another order on another mesh.
        height = np.where(gone, -np.inf, far)
        farthest = np.argsort(height, kind="stable")[-max(mesh.n_faces // 10, 1) :]
        tip = _uphill(paths, height, int(rng.choice(farthest)))
        along = np.where(gone, np.inf, dijkstra(paths, indices=tip))
        gone[np.argsort(along, kind="stable")[: round(share * mesh.n_faces)]] = True
    return without_faces(mesh, gone | _crumbs(paths, ~gone))


def rotation(mesh: Mesh, rng: np.random.Generator) -> Mutated:
    """Turned at random, uniformly on SO(3)."""
    turned = mesh.with_vertices(mesh.vertices @ random_rotation(rng).T)
    return Mutated(turned, mesh.vertices, np.arange(mesh.n_faces))


def scale(mesh: Mesh, rng: np.random.Generator, low: float = 0.001, high: float = 1000.0) -> Mutated:
    """Another unit of length, and moved away from the origin."""
    factor = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    moved = factor * (mesh.vertices + diagonal(mesh) * rng.uniform(-1, 1, 3))
    return Mutated(mesh.with_vertices(moved), mesh.vertices, np.arange(mesh.n_faces))


def renumbering(mesh: Mesh, rng: np.random.Generator) -> Mutated:
    """Vertices and faces in another order, faces started at another corner."""
    number, origin = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    vertices = np.empty_like(mesh.vertices)
    vertices[number] = mesh.vertices
    turn = (rng.integers(3, size=(mesh.n_faces, 1)) + np.arange(3)) % 3
    faces = np.take_along_axis(number[mesh.faces[origin]], turn, axis=1)
    return Mutated.of(mesh.with_surface(vertices, faces), origin)


def flipped_winding(mesh: Mesh, rng: np.random.Generator, share: float = 1.0) -> Mutated:
    """Faces turned inside out: all of them, or each with this probability."""
    flipped = rng.random(mesh.n_faces) < share
    faces = np.where(flipped[:, None], mesh.faces[:, ::-1], mesh.faces)
    return Mutated.of(replace(mesh, faces=faces), np.arange(mesh.n_faces))


def subdivision(mesh: Mesh, rng: np.random.Generator) -> Mutated:
    """Every face becomes four; the surface stays the same."""
    traced = subdivided(mesh)
    return Mutated.of(traced.mesh, traced.origin)


def mixed_resolution(mesh: Mesh, rng: np.random.Generator) -> Mutated:
    """Half as many faces everywhere, then four times as many again on one side of a random plane."""
    coarse = remesh(mesh, rng, max(mesh.n_faces // 2, 4)).mesh
    return Mutated.of(subdivided(coarse, _beyond_plane(coarse, 0.5, rng)).mesh, None)


ORIGINAL = Mutation("original", unchanged, 90.3)


def paper_mutations() -> list[Mutation]:
    """The rows of the paper's table, with its figures, and its cut-away parts, for which it has pictures only."""
    return [
        Mutation("Gaussian noise 0.005", partial(gaussian_noise, level=0.005), 88.3),
        Mutation("Gaussian noise 0.010", partial(gaussian_noise, level=0.010), 87.3),
        Mutation("Gaussian noise 0.020", partial(gaussian_noise, level=0.020), 81.1),
        remeshed(1000, 87.2),
        remeshed(2000, 86.2),
        Mutation("faces removed, p = 0.04", partial(face_removal, share=0.04), 87.8),
        Mutation("faces removed, p = 0.10", partial(face_removal, share=0.10), 85.9),
        Mutation("faces removed, p = 0.20", partial(face_removal, share=0.20), 81.6),
        Mutation("patches removed, p = 0.005", partial(patch_removal, share=0.005), 86.8),
        *(_incomplete(f"{n} limb{'s' * (n > 1)} cut away", partial(limbs_cut_away, count=n)) for n in (1, 2, 3)),
        *(_incomplete(f"{part:.0%} cut away by a plane", partial(cut_away, share=part)) for part in (0.1, 0.25, 0.5)),
    ]


def _incomplete(name: str, change: Change) -> Mutation:
    return Mutation(name, change, takes_parts=True)


def remeshed(n_faces: int, paper: float | None = None) -> Mutation:
    return Mutation(f"remeshed to {n_faces} faces", partial(remesh, n_faces=n_faces), paper)


def further_mutations() -> list[Mutation]:
    """Not in the paper: changes of a file that keep the shape."""
    return [
        Mutation("rotated", rotation),
        Mutation("scaled and moved", scale),
        Mutation("renumbered", renumbering),
        Mutation("winding flipped", flipped_winding),
        Mutation("half of the windings flipped", partial(flipped_winding, share=0.5)),
        Mutation("subdivided", subdivision),
        Mutation("mixed resolution", mixed_resolution),
    ]


def diagonal(mesh: Mesh) -> float:
    """The diagonal of the bounding box of all vertices in faces."""
    used = mesh.vertices[mesh.faces].reshape(-1, 3)
    return float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))


def _beyond_plane(mesh: Mesh, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The share of faces that reach farthest in a random direction."""
    direction = rng.standard_normal(3)
    along = face_centers(mesh.vertices, mesh.faces) @ direction
    result: NDArray[np.bool_] = along > np.quantile(along, 1 - share)
    return result


def _face_adjacency(mesh: Mesh) -> csr_array:
    """Faces that share an edge; a face that repeats a vertex has no neighbors."""
    proper, topology = mesh.proper_faces, mesh.topology
    rows = np.repeat(proper, 3)
    sides = csr_array((np.ones(len(rows)), (rows, topology.face_edges.ravel())), shape=(mesh.n_faces, topology.n.e))
    return csr_array(sides @ sides.T)


def _patch(adjacency: csr_array, center: int, size: int) -> list[int]:
    """`size` faces around one, ring by ring over shared edges; fewer where the component ends."""
    patch, seen = [center], {center}
    for face in patch:  # grows while it is walked
        for other in adjacency.indices[adjacency.indptr[face] : adjacency.indptr[face + 1]]:
            if len(patch) >= size:
                return patch
            if int(other) not in seen:
                seen.add(int(other))
                patch.append(int(other))
    return patch


def _uphill(adjacency: csr_array, height: FloatArray, face: int) -> int:
    """The summit that is reached by always going to the highest adjacent face."""
    while True:
        around = adjacency.indices[adjacency.indptr[face] : adjacency.indptr[face + 1]]
        if not around.size or height[around].max() <= height[face]:
            return face
        face = int(around[height[around].argmax()])


def _crumbs(adjacency: csr_array, left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Remaining faces in pieces of less than 1 % of the mesh, which fall off when a limb is cut."""
    kept = np.flatnonzero(left)
    _, piece = connected_components(adjacency[kept][:, kept], directed=False)
    small = np.bincount(piece)[piece] < 0.01 * len(left)
    crumbs = np.zeros(len(left), dtype=bool)
    crumbs[kept[small]] = True
    return crumbs
