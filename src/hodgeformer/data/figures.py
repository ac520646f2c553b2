"""Articulated figures: one closed surface around a random skeleton in a random pose, with a body part for every face.

The surface is a smooth union of round cones in a rest pose, in which limbs do not touch. It is then posed by blending
the motions of the bones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.elements import majority
from hodgeformer.mesh.geometry import face_centers
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import rotation_about
from hodgeformer.mesh.simplify import simplify
from hodgeformer.mesh.topology import MeshComplex, component_numbers

PARTS = ("head", "hand", "lower_arm", "upper_arm", "torso", "upper_leg", "lower_leg", "foot")

_SPACING = 0.035
_FILLET = 0.02  # length over which neighboring bones blend into one surface
_SOFTNESS = 0.025  # length over which the skin blends from one bone to the next at a joint
_BULGE = 0.15  # how much thicker bones are in the middle; straight cones would decimate into slivers
_ISLAND_SHARE = 0.12
_REACH = 5  # fillets and blends end after this many lengths

# Joint -> (its parent, limits of rotation in degrees about x, y, z). Parents come first.
_JOINTS: dict[str, tuple[str | None, tuple[tuple[float, float], ...]]] = {
    "pelvis": (None, ((-10, 10), (0, 0), (-8, 8))),
    "chest": ("pelvis", ((-10, 25), (-18, 18), (-10, 10))),
    "neck": ("chest", ((-15, 25), (-35, 35), (-10, 10))),
    "shoulder_l": ("chest", ((-60, 30), (-40, 20), (-25, 60))),
    "elbow_l": ("shoulder_l", ((-60, 0), (-60, 0), (0, 0))),
    "wrist_l": ("elbow_l", ((-20, 20), (-20, 20), (-20, 20))),
    "shoulder_r": ("chest", ((-60, 30), (-20, 40), (-60, 25))),
    "elbow_r": ("shoulder_r", ((-60, 0), (0, 60), (0, 0))),
    "wrist_r": ("elbow_r", ((-20, 20), (-20, 20), (-20, 20))),
    "hip_l": ("pelvis", ((-60, 25), (-15, 15), (-4, 22))),
    "knee_l": ("hip_l", ((0, 75), (0, 0), (0, 0))),
    "ankle_l": ("knee_l", ((-15, 25), (-12, 12), (0, 0))),
    "hip_r": ("pelvis", ((-60, 25), (-15, 15), (-22, 4))),
    "knee_r": ("hip_r", ((0, 75), (0, 0), (0, 0))),
    "ankle_r": ("knee_r", ((-15, 25), (-12, 12), (0, 0))),
}
_JOINT_NAMES = tuple(_JOINTS)

# (start, end, radius at the start, radius at the end, part, joint that moves it); "*" means both sides.
_BONES = (
    ("shoulder*", "elbow*", 0.052, 0.040, "upper_arm", "shoulder*"),
    ("elbow*", "wrist*", 0.042, 0.032, "lower_arm", "elbow*"),
    ("palm*", "finger*", 0.042, 0.030, "hand", "wrist*"),
    ("hip*", "knee*", 0.072, 0.050, "upper_leg", "hip*"),
    ("knee*", "ankle*", 0.054, 0.038, "lower_leg", "knee*"),
    ("heel*", "toe*", 0.046, 0.036, "foot", "ankle*"),
    ("loin*", "waist*", 0.092, 0.085, "torso", "pelvis"),
    ("waist*", "breast*", 0.085, 0.080, "torso", "chest"),
    ("chest", "throat", 0.085, 0.060, "torso", "chest"),
    ("throat", "neck", 0.048, 0.048, "head", "neck"),
    ("chin", "crown", 0.100, 0.092, "head", "neck"),
)

# Six tetrahedra around the diagonal of a cell; corner c of a cell is at offset (c & 1, c >> 1 & 1, c >> 2 & 1).
_TETRAHEDRA = np.array(
    [[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]], dtype=np.int64
)
_CORNERS = np.array([[c & 1, c >> 1 & 1, c >> 2 & 1] for c in range(8)], dtype=np.int64)
# Triangles for 1, 2, 3 inside corners, as segments between the sorted corners of a tetrahedron.
_TRIANGLES = {
    1: np.array([[[0, 1], [0, 2], [0, 3]]]),
    2: np.array([[[0, 2], [0, 3], [1, 2]], [[1, 2], [0, 3], [1, 3]]]),
    3: np.array([[[0, 3], [1, 3], [2, 3]]]),
}


@dataclass(frozen=True)
class Bones:
    """Bulging round cones from `tail` to `head` with `radii` at both; part and joint are indices in their lists."""

    tail: FloatArray
    head: FloatArray
    radii: FloatArray
    part: IntArray
    joint: IntArray

    def distances(self, points: FloatArray) -> NDArray[np.float32]:
        """(n_bones, n) signed distances of points to the bones, negative inside."""
        columns = points.astype(np.float32).T
        result = np.empty((len(self.tail), len(points)), dtype=np.float32)
        for i, (tail, head) in enumerate(zip(self.tail, self.head, strict=True)):
            x, y, z = columns - tail.astype(np.float32)[:, None]
            a, b, c = (head - tail).astype(np.float32)
            along = np.clip((x * a + y * b + z * c) / (a * a + b * b + c * c), 0, 1)
            x, y, z = x - along * a, y - along * b, z - along * c
            first, last = self.radii[i].astype(np.float32)
            bulge = 1 + np.float32(4 * _BULGE) * along * (1 - along)
            result[i] = np.sqrt(x * x + y * y + z * z) - (first + along * (last - first)) * bulge
        return result


def figure(rng: np.random.Generator, *, n_faces: int, name: str = "figure") -> tuple[Mesh, IntArray]:
    """A random figure of about n_faces faces, y up, and for every face its part as an index in PARTS."""
    build = rng.uniform(0.8, 1.25)
    places = _places(rng, build)
    bones = _bones(places, build)
    small = simplify(Mesh(*_surface(bones), name=name), n_faces).mesh
    vertices, faces = small.vertices, small.faces
    labels = bones.part[bones.distances(face_centers(vertices, faces)).argmin(axis=0)]
    labels = _without_islands(labels, MeshComplex.from_faces(faces, len(vertices)))
    return Mesh(_bent(vertices, bones, places, rng), faces, name=name), labels


def _places(rng: np.random.Generator, build: float) -> dict[str, FloatArray]:
    """Joints and ends of bones in the rest pose: y up, facing along z, arms lowered by 45 degrees."""
    size = {
        name: length * rng.uniform(0.87, 1.13)
        for name, length in {
            "shoulder": 0.185, "hip": 0.118, "upper_arm": 0.29, "lower_arm": 0.26, "hand": 0.16, "upper_leg": 0.43,
            "lower_leg": 0.42, "foot": 0.17, "belly": 0.24, "rib": 0.27, "head": 0.11,
        }.items()
    }  # fmt: skip
    spine = _vector(0, size["belly"], 0)
    throat = spine + _vector(0, size["rib"], 0)
    places = {
        "pelvis": np.zeros(3),
        "chest": spine,
        "neck": throat + _vector(0, 0.09, 0),
        "throat": throat,
        "chin": throat + _vector(0, 0.17, 0.01),
        "crown": throat + _vector(0, 0.17 + size["head"], 0),
    }
    for side, sign in (("_l", 1.0), ("_r", -1.0)):
        arm, down = _vector(sign, -1, 0) / np.sqrt(2), _vector(0, -1, 0)
        shoulder = throat + _vector(sign * size["shoulder"], -0.05, 0)
        elbow = shoulder + size["upper_arm"] * arm
        wrist = elbow + size["lower_arm"] * arm
        hip = _vector(sign * size["hip"] * build, -0.05, 0)
        knee = hip + size["upper_leg"] * down + _vector(sign * 0.03, 0, 0)
        ankle = knee + size["lower_leg"] * down
        ends = {
            "shoulder": shoulder, "elbow": elbow, "wrist": wrist, "hip": hip, "knee": knee, "ankle": ankle,
            "palm": wrist + 0.045 * arm, "finger": wrist + size["hand"] * arm,
            "heel": ankle + _vector(0, -0.03, 0.0), "toe": ankle + _vector(sign * 0.03, -0.045, size["foot"]),
            "loin": hip * _vector(0.5, 0.2, 1), "waist": spine + _vector(sign * 0.045, 0, 0),
            "breast": shoulder + _vector(-sign * 0.09, -0.02, 0),
        }  # fmt: skip
        places |= {name + side: place for name, place in ends.items()}
    return places


def _vector(x: float, y: float, z: float) -> FloatArray:
    return np.array([x, y, z], dtype=np.float64)


def _bones(places: dict[str, FloatArray], build: float) -> Bones:
    """`build` thickens everything but the head: slim below one, stout above."""
    rows = []
    for start, end, first, last, part, joint in _BONES:
        factor = 1.0 if part == "head" else build
        for side in ("_l", "_r") if "*" in start else ("",):
            ends = [places[place.replace("*", side)] for place in (start, end)]
            rows.append((*ends, (first * factor, last * factor), PARTS.index(part), joint.replace("*", side)))
    tail, head, radii, part_numbers, joints = zip(*rows, strict=True)
    return Bones(
        tail=np.array(tail),
        head=np.array(head),
        radii=np.array(radii),
        part=np.array(part_numbers),
        joint=np.array([_JOINT_NAMES.index(joint) for joint in joints]),
    )


def _surface(bones: Bones) -> tuple[FloatArray, IntArray]:
    """The zero level of the smooth minimum -s log sum exp(-d_i / s) of the distances to all bones."""
    margin = bones.radii.max() + 2 * _SPACING
    low = np.minimum(bones.tail, bones.head).min(axis=0) - margin
    high = np.maximum(bones.tail, bones.head).max(axis=0) + margin
    shape = np.ceil((high - low) / _SPACING).astype(int) + 1
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 3)
    distances = bones.distances(low + _SPACING * grid)
    nearest = distances.min(axis=0)
    near = np.abs(nearest) < _REACH * _FILLET
    field = nearest.copy()
    blend = np.exp((nearest[near] - distances[:, near]) / np.float32(_FILLET)).sum(axis=0)
    field[near] -= np.float32(_FILLET) * np.log(blend)
    return isosurface(field.reshape(shape), origin=low, spacing=_SPACING)


def _without_islands(labels: IntArray, topology: MeshComplex) -> IntArray:
    """Pieces of a part that are much smaller than its largest one get the most frequent part around them."""
    sides = np.argsort(topology.face_edges.ravel(), kind="stable").reshape(-1, 2)  # the two of every edge
    one, other = (sides // 3).T
    same = labels[one] == labels[other]
    piece = component_numbers(np.stack([one[same], other[same]], axis=1), len(labels))
    size = np.bincount(piece)[piece]
    largest = np.zeros(len(PARTS), dtype=np.int64)
    np.maximum.at(largest, labels, size)
    island = size < _ISLAND_SHARE * largest[labels]
    receiver, giver = np.concatenate([one, other]), np.concatenate([other, one])
    border = island[receiver] & ~island[giver]
    around = majority(labels[giver[border]], piece[receiver[border]], int(piece.max()) + 1)[piece]
    return np.where(island & (around >= 0), around, labels)


def _bent(vertices: FloatArray, bones: Bones, places: dict[str, FloatArray], rng: np.random.Generator) -> FloatArray:
    """x <- sum_i w_i(x) (R_i x + t_i) over joints i, with weights that fall off with the distance to their bones."""
    turns, shifts = _motions(places, rng)
    distances = bones.distances(vertices).astype(np.float64)
    weights = np.exp((distances.min(axis=0) - distances) / _SOFTNESS)
    weights /= weights.sum(axis=0)
    moved = np.einsum("jab,vb->jva", turns, vertices) + shifts[:, None]
    return np.asarray(np.einsum("bv,bva->va", weights, moved[bones.joint]), np.float64)


def _motions(places: dict[str, FloatArray], rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """A random rigid motion per joint, relative to that of its parent."""
    turns = np.empty((len(_JOINTS), 3, 3))
    shifts = np.empty((len(_JOINTS), 3))
    for i, (name, (parent, limits)) in enumerate(_JOINTS.items()):
        x, y, z = (rotation_about(np.eye(3)[axis], np.radians(rng.uniform(*limits[axis]))) for axis in range(3))
        own = z @ y @ x
        above = None if parent is None else _JOINT_NAMES.index(parent)
        turn, shift = (np.eye(3), np.zeros(3)) if above is None else (turns[above], shifts[above])
        turns[i] = turn @ own
        shifts[i] = shift + turn @ (places[name] - own @ places[name])
    return turns, shifts


def isosurface(field: NDArray[np.floating], *, origin: FloatArray, spacing: float) -> tuple[FloatArray, IntArray]:
    """Vertices and faces of field = 0 by marching tetrahedra: closed and manifold, normals toward positive values.

    `field[i, j, k]` is the value at origin + spacing * (i, j, k) and must be positive on the border.
    """
    shape = field.shape
    strides = np.array([shape[1] * shape[2], shape[2], 1], dtype=np.int64)
    values = np.where(field == 0, np.finfo(field.dtype).tiny, field).ravel()
    cells = np.indices([n - 1 for n in shape]).reshape(3, -1).T @ strides
    corners = cells[:, None, None] + (_CORNERS @ strides)[_TETRAHEDRA]
    segments = _crossing_segments(corners.reshape(-1, 4), values < 0)
    ends, faces = np.unique(segments.reshape(-1, 2) @ np.array([len(values), 1]), return_inverse=True)
    a, b = np.divmod(ends, len(values))
    share = (values[a] / (values[a] - values[b]))[:, None]
    points = (1 - share) * _positions(a, shape) + share * _positions(b, shape)
    return origin + spacing * points, faces.reshape(-1, 3).astype(np.int64)


def _crossing_segments(tetrahedra: IntArray, inside: NDArray[np.bool_]) -> IntArray:
    """(n, 3, 2) triangles, each corner on a grid segment (a, b), a < b, whose ends are on different sides."""
    n_inside = inside[tetrahedra].sum(axis=1)
    tetrahedra, n_inside = (rows[n_inside % 4 > 0] for rows in (tetrahedra, n_inside))  # those that are crossed
    signs = inside[tetrahedra]
    # Inside corners first. An odd permutation mirrors the tetrahedron and its triangles.
    order = np.argsort(~signs, axis=1, kind="stable")
    odd = _is_odd(order)
    sorted_corners = np.take_along_axis(tetrahedra, order, axis=1)
    parts = []
    for number, corners in _TRIANGLES.items():
        chosen = n_inside == number
        triangles = sorted_corners[chosen][:, corners]
        flip = odd[chosen]
        triangles[flip] = triangles[flip][:, :, ::-1]
        parts.append(triangles.reshape(-1, 3, 2))
    return np.sort(np.concatenate(parts), axis=2)


def _is_odd(order: IntArray) -> NDArray[np.bool_]:
    i, j = np.triu_indices(4, 1)
    return np.asarray((order[:, i] > order[:, j]).sum(axis=1) % 2 == 1, np.bool_)


def _positions(points: IntArray, shape: tuple[int, ...]) -> FloatArray:
    return np.stack(np.unravel_index(points, shape), axis=1).astype(np.float64)
