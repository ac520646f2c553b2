"""The material library (.mtl) that lies beside an OBJ file: one plain color per material."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.formats.content import Colors

_NO_MATERIAL = (0.8, 0.8, 0.8)


def name_of(color: NDArray[np.uint8]) -> str:
    """`color_ff8000`: the same color is the same material."""
    return "color_" + bytes(color.tolist()).hex()


def mtl_text(face_colors: Colors) -> str:
    """One material per distinct color; `d` is the alpha channel where there is one."""
    blocks = []
    for color in np.unique(face_colors, axis=0):
        red, green, blue, *alpha = (color / 255.0).tolist()
        lines = [f"newmtl {name_of(color)}", f"Kd {red:.6f} {green:.6f} {blue:.6f}", "Ks 0 0 0", "illum 1"]
        lines += [f"d {value:.6f}" for value in alpha]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def read_colors(names: list[str], libraries: list[str], obj_path: Path) -> tuple[Colors | None, list[str]]:
    """Color per name, then the color of no material; None and a note where a material is missing."""
    materials: dict[str, dict[str, list[float]]] = {}
    for library in libraries:
        path = (obj_path.parent / library.replace("\\", "/")).resolve()
        # A file must not make us read outside its own folder.
        if not path.is_relative_to(obj_path.parent.resolve()) or not path.is_file():
            return None, [f"colors of faces left out: material file {library!r} is not beside the mesh"]
        materials |= _parse(path.read_bytes().decode("utf-8", errors="replace"))
    missing = [name for name in names if "Kd" not in materials.get(name, {})]
    if missing:
        return None, [f"colors of faces left out: material {missing[0]!r} has no color"]
    has_alpha = all("d" in materials[name] for name in names)
    rows = [materials[name]["Kd"] + (materials[name]["d"] if has_alpha else []) for name in names]
    rows.append([*_NO_MATERIAL, 1.0] if has_alpha else [*_NO_MATERIAL])
    return np.clip(np.rint(np.nan_to_num(np.array(rows)) * 255), 0, 255).astype(np.uint8), []


def _parse(text: str) -> dict[str, dict[str, list[float]]]:
    """`Kd` (three numbers) and `d` (one) of every material; lines that make no sense are passed over."""
    materials: dict[str, dict[str, list[float]]] = {}
    current: dict[str, list[float]] = {}
    for line in text.splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "newmtl":
            current = materials.setdefault(rest.strip(), {})
        elif keyword in ("Kd", "d"):
            try:
                values = [float(word) for word in rest.split()]
            except ValueError:
                continue
            if len(values) == (3 if keyword == "Kd" else 1):
                current[keyword] = values
    return materials
