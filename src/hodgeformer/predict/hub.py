"""Models in folders and on a model hub."""

from __future__ import annotations

import os
from pathlib import Path

from hodgeformer.checkpoint import Checkpoint, save_checkpoint
from hodgeformer.errors import CheckpointError, ConfigError
from hodgeformer.files import offline, write_atomically
from hodgeformer.models.bundled import PRETRAINED, locate_model


def fetch_pretrained(model: str | os.PathLike[str]) -> Path:
    """The checkpoint file of a path, a bundled name or a hub id OWNER/NAME."""
    try:
        return locate_model(model)
    except CheckpointError:
        text = str(model)
        if text.count("/") != 1 or text.startswith((".", "/", "~")):
            raise
    if offline():
        raise CheckpointError(f"{text}: not a model on this machine, and HODGEFORMER_OFFLINE forbids to fetch it")
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


def write_pretrained(checkpoint: Checkpoint, folder: Path) -> Path:
    """The checkpoint and a card that says what it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be made ({error.strerror})") from None
    save_checkpoint(folder / PRETRAINED, checkpoint)
    write_atomically(folder / "README.md", model_card(checkpoint).encode())
    return folder


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
