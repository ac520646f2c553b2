"""What MODEL means, for every command: names, folders, files, several of them, or an id on a model hub."""

from __future__ import annotations

import difflib
import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.base.errors import CheckpointError, ConfigError
from hodgeformer.base.files import refuse_network

SUFFIX = ".safetensors"
EXPORTED = ".onnx"
PRETRAINED = f"model{SUFFIX}"
# The checkpoint of a folder, in order of preference: of a run, then of save_pretrained.
_IN_FOLDER = (f"best{SUFFIX}", f"last{SUFFIX}", PRETRAINED)
FOLD = "fold-"
"""The prefix of the run folders of a cross-validation, before their number."""
_HUB_PART = re.compile(r"\w[\w.-]*").fullmatch
_BUNDLED = Path(__file__).parents[1] / "models"  # NAME.safetensors and its card NAME.md


@dataclass(frozen=True)
class BundledModel:
    """A model of the package. `card` describes what it was trained on, its scores and its limits."""

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


def locate_models(model: str | os.PathLike[str]) -> list[Path]:
    """The files of MODEL: a bundled name, a run folder, a checkpoint, an exported file, or a hub id.

    Several are given as "a,b", as a pattern, or as the folder of a cross-validation. Existing paths take precedence.
    """
    text, path = os.fspath(model), Path(model)
    if path.is_file():
        return [path]
    if path.is_dir():
        return _in_folder(path)
    if "," in text:
        return [found for part in text.split(",") for found in locate_models(part.strip())]
    if glob.has_magic(text):
        matches = sorted(glob.glob(text))  # noqa: PTH207 - Path.glob does not accept absolute patterns
        if not matches:
            raise CheckpointError(f"{text}: no model matches")
        return [found for match in matches for found in locate_models(match)]
    bundled = bundled_models()
    if text in bundled:
        return [bundled[text].path]
    if _is_hub_id(text):
        return [_fetched(text)]
    close = difflib.get_close_matches(text, list(bundled), n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"bundled models: {', '.join(bundled) or 'none'}"
    raise CheckpointError(f"{model}: no file, folder or bundled model has this name; {hint}")


def holds_model(folder: Path) -> bool:
    """Whether a folder contains a run, a model of `save_pretrained`, or a cross-validation."""
    return folder.is_dir() and bool(_checkpoints(folder) or _folds(folder))


def _in_folder(folder: Path) -> list[Path]:
    own = _checkpoints(folder)
    if own:
        return own[:1]
    folds = _folds(folder)
    if not folds:
        raise CheckpointError(f"{folder}: this folder contains no model; looked for {', '.join(_IN_FOLDER)}")
    return [found for fold in folds for found in _in_folder(fold)]


def _checkpoints(folder: Path) -> list[Path]:
    return [folder / name for name in _IN_FOLDER if (folder / name).is_file()]


def _folds(folder: Path) -> list[Path]:
    """The runs of a cross-validation by their numbers; a copy such as fold-1-old is ignored."""
    numbers = (path.name.removeprefix(FOLD) for path in folder.glob(f"{FOLD}*"))
    return [folder / f"{FOLD}{number}" for number in sorted(filter(str.isdecimal, numbers), key=int)]


def _is_hub_id(text: str) -> bool:
    """Whether the text is OWNER/NAME, and not a path into an existing folder or a misspelled file."""
    owner, _, name = text.partition("/")
    is_file = text.endswith((SUFFIX, EXPORTED))
    return bool(_HUB_PART(owner) and _HUB_PART(name)) and not is_file and not Path(owner).is_dir()


def _fetched(text: str) -> Path:
    """The checkpoint of a hub id."""
    remedy = f"{text} is not a local model: download it and use the path of its folder"
    refuse_network("the model hub", remedy, CheckpointError)
    try:
        from huggingface_hub import hf_hub_download  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ConfigError(
            f"{text}: no such file or folder; to download it from a hub: pip install 'hodgeformer[hub]'"
        ) from None
    try:
        return Path(hf_hub_download(text, PRETRAINED))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{text}: cannot be downloaded from the hub ({str(error).splitlines()[0]})") from None
