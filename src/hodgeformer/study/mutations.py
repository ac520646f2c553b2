"""The paper's mutations of a test mesh, and some of our own. Each draws from the generator it is given and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from hodgeformer.mesh.elements import proper_complex
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import random_rotation
from hodgeformer.mesh.subdivision import rebuilt, subdivided
from hodgeformer.study.remesh import remeshed, without_faces

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
    """A named change; `paper` is the accuracy that the paper reports for it on Human, in percent."""

    name: str
    change: Change
    paper: float | None = None

    def __call__(self, mesh: Mesh, *, seed: int = 0) -> Mutated:
        """The changed mesh, the same for the same seed and name of mesh, whatever else is run."""
        key = [seed, crc32(self.name.encode()), crc32(mesh.name.encode())]
        return self.change(mesh, np.random.default_rng(key))


def unchanged() -> Change:
    return lambda mesh, rng: Mutated.of(mesh, _same_faces(mesh))


def gaussian_noise(level: float) -> Change:
    """Every vertex moves by Gaussian noise, `level` times the diagonal of the bounding box strong."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        noise = level * diagonal(mesh) * rng.standard_normal(mesh.vertices.shape)
        return Mutated.of(mesh.with_vertices(mesh.vertices + noise), _same_faces(mesh))

    return change


def remesh(n_faces: int) -> Change:
    """Quadric decimation to n_faces; coarser meshes are subdivided first."""
    return lambda mesh, rng: Mutated.of(remeshed(mesh, n_faces), None)


def removal(removed: Callable[[Mesh, np.random.Generator], NDArray[np.bool_]]) -> Change:
    """The faces that are named are taken out."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        traced = without_faces(mesh, removed(mesh, rng))
        return Mutated.of(traced.mesh, traced.origin)

    return change


def face_removal(share: float) -> Change:
    """Every face is removed with this probability."""
    return removal(lambda mesh, rng: rng.random(mesh.n_faces) < share)


def cut_away(share: float) -> Change:
    """A plane in a random direction cuts this share of the faces off."""
    return removal(lambda mesh, rng: _beyond_plane(mesh, share, rng))


def patch_removal(share: float, sizes: tuple[int, int] = PATCH_FACES) -> Change:
    """Every face is chosen with this probability, and the patch of its nearest faces, 8 to 15 of them, removed."""

    def removed(mesh: Mesh, rng: np.random.Generator) -> NDArray[np.bool_]:
        centers = np.flatnonzero(rng.random(mesh.n_faces) < share)
        wanted = rng.integers(sizes[0], sizes[1] + 1, len(centers))
        adjacency = _face_adjacency(mesh)
        gone = np.zeros(mesh.n_faces, dtype=bool)
        for center, size in zip(centers, wanted, strict=True):
            gone[_patch(adjacency, int(center), int(size))] = True
        return gone

    return removal(removed)


def paired(mesh: Mesh, other: Mesh) -> Mesh:
    """Two meshes of one size beside each other, as a scan of two people would be."""
    sides = []
    for one in (mesh, other):
        low, high = one.vertices.min(axis=0), one.vertices.max(axis=0)
        sides.append((one.vertices - (low + high) / 2) / diagonal(one))
    gap = sides[0][:, 0].max() - sides[1][:, 0].min() + 0.05
    vertices = np.concatenate([sides[0], sides[1] + [gap, 0, 0]])
    return Mesh(vertices, np.concatenate([mesh.faces, other.faces + mesh.n_vertices]), f"{mesh.name} and {other.name}")


def limbs_cut_away(count: int, share: float = 0.06) -> Change:
    """`count` times a tip, farther from the middle than all around it, is cut off with the share of faces nearest to it
    along the surface."""

    def removed(mesh: Mesh, rng: np.random.Generator) -> NDArray[np.bool_]:
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
        return gone | _crumbs(paths, ~gone)

    return removal(removed)


def rotation() -> Change:
    """Turned at random, uniformly on SO(3)."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        turned = mesh.with_vertices(mesh.vertices @ random_rotation(rng).T)
        return Mutated(turned, mesh.vertices, _same_faces(mesh))

    return change


def scale(low: float = 0.001, high: float = 1000.0) -> Change:
    """Another unit of length, and moved away from the origin."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        factor = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        moved = factor * (mesh.vertices + diagonal(mesh) * rng.uniform(-1, 1, 3))
        return Mutated(mesh.with_vertices(moved), mesh.vertices, _same_faces(mesh))

    return change


def renumbering() -> Change:
    """Vertices and faces in another order, faces started at another corner."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        number, origin = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
        vertices = np.empty_like(mesh.vertices)
        vertices[number] = mesh.vertices
        turn = (rng.integers(3, size=(mesh.n_faces, 1)) + np.arange(3)) % 3
        faces = np.take_along_axis(number[mesh.faces[origin]], turn, axis=1)
        return Mutated.of(rebuilt(mesh, vertices, faces), origin)

    return change


def flipped_winding(share: float = 1.0) -> Change:
    """Faces turned inside out: all of them, or each with this probability."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        flipped = rng.random(mesh.n_faces) < share
        faces = np.where(flipped[:, None], mesh.faces[:, ::-1], mesh.faces)
        return Mutated.of(replace(mesh, faces=faces), _same_faces(mesh))

    return change


def subdivision() -> Change:
    """Every face becomes four; the surface stays the same."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        traced = subdivided(mesh)
        return Mutated.of(traced.mesh, traced.origin)

    return change


def mixed_resolution() -> Change:
    """Half as many faces everywhere, then four times as many again on one side of a random plane."""

    def change(mesh: Mesh, rng: np.random.Generator) -> Mutated:
        coarse = remeshed(mesh, max(mesh.n_faces // 2, 4))
        return Mutated.of(subdivided(coarse, _beyond_plane(coarse, 0.5, rng)).mesh, None)

    return change


ORIGINAL = Mutation("original", unchanged(), 90.3)


def paper_mutations() -> list[Mutation]:
    """The rows of the paper's table, with its figures, and its cut-away parts, for which it has pictures only."""
    return [
        Mutation("Gaussian noise 0.005", gaussian_noise(0.005), 88.3),
        Mutation("Gaussian noise 0.010", gaussian_noise(0.010), 87.3),
        Mutation("Gaussian noise 0.020", gaussian_noise(0.020), 81.1),
        Mutation("remeshed to 1000 faces", remesh(1000), 87.2),
        Mutation("remeshed to 2000 faces", remesh(2000), 86.2),
        Mutation("faces removed, p = 0.04", face_removal(0.04), 87.8),
        Mutation("faces removed, p = 0.10", face_removal(0.10), 85.9),
        Mutation("faces removed, p = 0.20", face_removal(0.20), 81.6),
        Mutation("patches removed, p = 0.005", patch_removal(0.005), 86.8),
        *(Mutation(f"{n} limb{'s' * (n > 1)} cut away", limbs_cut_away(n)) for n in (1, 2, 3)),
        *(Mutation(f"{share:.0%} cut away by a plane", cut_away(share)) for share in (0.1, 0.25, 0.5)),
    ]


def further_mutations() -> list[Mutation]:
    """What the paper does not ask: changes of a file that leave the shape as it is."""
    return [
        Mutation("rotated", rotation()),
        Mutation("scaled and moved", scale()),
        Mutation("renumbered", renumbering()),
        Mutation("winding flipped", flipped_winding()),
        Mutation("half of the windings flipped", flipped_winding(0.5)),
        Mutation("subdivided", subdivision()),
        Mutation("mixed resolution", mixed_resolution()),
    ]


def diagonal(mesh: Mesh) -> float:
    """Of the bounding box of what faces use."""
    used = mesh.vertices[mesh.faces].reshape(-1, 3)
    return float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))


def _same_faces(mesh: Mesh) -> IntArray:
    return np.arange(mesh.n_faces)


def _beyond_plane(mesh: Mesh, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The share of faces that reach farthest in a random direction."""
    direction = rng.standard_normal(3)
    along = face_centers(mesh.vertices, mesh.faces) @ direction
    result: NDArray[np.bool_] = along > np.quantile(along, 1 - share)
    return result


def _face_adjacency(mesh: Mesh) -> csr_array:
    """Faces that share an edge; a face that repeats a vertex has no neighbors."""
    proper, topology = proper_complex(mesh)
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
    """Faces that are left in pieces of less than 1 % of the mesh: what falls off when a limb is cut."""
    kept = np.flatnonzero(left)
    _, piece = connected_components(adjacency[kept][:, kept], directed=False)
    small = np.bincount(piece)[piece] < 0.01 * len(left)
    crumbs = np.zeros(len(left), dtype=bool)
    crumbs[kept[small]] = True
    return crumbs
