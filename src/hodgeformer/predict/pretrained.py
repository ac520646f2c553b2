"""What MODEL means: a bundled name, a run folder, a saved folder, or a checkpoint file."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.errors import CheckpointError

SUFFIX = ".safetensors"
PRETRAINED = f"model{SUFFIX}"
# A folder's checkpoint, first found first taken: of a run, then of save_pretrained.
_IN_FOLDER = (f"best{SUFFIX}", f"last{SUFFIX}", PRETRAINED)
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class BundledModel:
    """A model of the package. `card` says what it was trained on, what it scores and where it fails."""

    name: str
    path: Path
    card: str

    @property
    def summary(self) -> str:
        """The title of the card without the name."""
        title = self.card.lstrip().splitlines()[0].lstrip("# ") if self.card.strip() else ""
        return title.removeprefix(f"{self.name}:").strip()


def bundled_models(folder: Path = _HERE) -> dict[str, BundledModel]:
    """The models of the package by name."""
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        card = path.with_suffix(".md")
        found[path.stem] = BundledModel(path.stem, path, card.read_text(encoding="utf-8") if card.is_file() else "")
    return found


def locate_model(model: str | os.PathLike[str]) -> Path:
    """The checkpoint file that a name or a path stands for. A path that exists goes before a bundled name."""
    path = Path(model)
    if path.is_dir():
        for name in _IN_FOLDER:
            if (path / name).is_file():
                return path / name
        raise CheckpointError(f"{path}: this folder holds no model; looked for {', '.join(_IN_FOLDER)}")
    if path.is_file():
        return path
    bundled = bundled_models()
    if str(model) in bundled:
        return bundled[str(model)].path
    close = difflib.get_close_matches(str(model), list(bundled), n=1)
    known = ", ".join(bundled) or "none in this installation"
    hint = f"did you mean '{close[0]}'?" if close else f"bundled models: {known}"
    raise CheckpointError(f"{model}: there is no such file or folder, and no bundled model of that name; {hint}")
