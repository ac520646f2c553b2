"""What MODEL means: a bundled name, a run folder, a saved folder, a checkpoint file, or an id on a model hub."""

from __future__ import annotations

import difflib
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import refuse_network

if TYPE_CHECKING:  # the list of models needs no torch
    from hodgeformer.predict.checkpoint import Checkpoint

SUFFIX = ".safetensors"
PRETRAINED = f"model{SUFFIX}"
# A folder's checkpoint, first found first taken: of a run, then of save_pretrained.
_IN_FOLDER = (f"best{SUFFIX}", f"last{SUFFIX}", PRETRAINED)
FOLD = "fold-"
"""What the runs in the folder of a cross-validation are called, before their number."""
_BUNDLED = Path(__file__).parents[1] / "models"  # NAME.safetensors and its card NAME.md


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


def bundled_models(folder: Path = _BUNDLED) -> dict[str, BundledModel]:
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


def locate_models(model: str | os.PathLike[str]) -> list[Path]:
    """The checkpoint files of what may be several models: "a,b", a pattern, or the folder of a cross-validation."""
    text = os.fspath(model)
    if "," in text and not Path(text).exists():
        return [path for part in text.split(",") for path in locate_models(part.strip())]
    if glob.has_magic(text) and not Path(text).exists():
        matches = sorted(glob.glob(text))  # noqa: PTH207 - Path.glob takes no absolute patterns
        if not matches:
            raise CheckpointError(f"{text}: no model matches")
        return [locate_model(match) for match in matches]
    folds = sorted(Path(text).glob(f"{FOLD}*"), key=lambda path: int(path.name.removeprefix(FOLD)))
    if folds and not any((Path(text) / name).is_file() for name in _IN_FOLDER):
        return [locate_model(fold) for fold in folds]
    return [locate_model(model)]


def fetch_pretrained(model: str | os.PathLike[str]) -> Path:
    """The checkpoint file of a path, a bundled name or a hub id OWNER/NAME."""
    try:
        return locate_model(model)
    except CheckpointError:
        text = str(model)
        if text.count("/") != 1 or text.startswith((".", "/", "~")):
            raise
    remedy = f"{text} is not a model on this machine: download it and give the path of its folder"
    refuse_network("the model hub", remedy, CheckpointError)
    try:
        from huggingface_hub import hf_hub_download  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ConfigError(
            f"{text}: not a model on this machine; to fetch it from a hub: pip install 'hodgeformer[hub]'"
        ) from None
    try:
        return Path(hf_hub_download(text, PRETRAINED))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{text}: cannot be fetched from the hub ({str(error).splitlines()[0]})") from None


def model_card(checkpoint: Checkpoint) -> str:
    """A description in Markdown of what the checkpoint itself knows."""
    model, statistics = checkpoint.model, checkpoint.statistics
    lines = [
        "---\nlibrary_name: hodgeformer\ntags: [mesh, 3d, hodgeformer]\n---",
        f"# {checkpoint.name}: {model.task}, per {model.element}",
        f"A HodgeFormer with blocks `{model.blocks}`, width {model.d_model}, updates `{model.updates}`, "
        f"pose `{checkpoint.prepare.pose}`.",
    ]
    if checkpoint.classes:
        lines.append(f"Classes: {', '.join(checkpoint.classes)}.")
    if statistics is not None:
        low, middle, high = statistics.n["f"]
        lines.append(
            f"Trained on {statistics.n_meshes} meshes of {low:,.0f} to {high:,.0f} faces (median {middle:,.0f})."
        )
    if checkpoint.metrics:
        lines.append(
            "\n".join(f"- {name.replace('_', ' ')}: {value:.4f}" for name, value in checkpoint.metrics.items())
        )
    lines.append(
        "```python\nimport hodgeformer as hf\n"
        'result = hf.Predictor.from_pretrained("THIS FOLDER").predict("scan.stl")\n```'
    )
    return "\n\n".join(lines) + "\n"
