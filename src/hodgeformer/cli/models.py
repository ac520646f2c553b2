"""`hodgeformer models` and `hodgeformer info`: the bundled models, and the details of one model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hodgeformer.cli.results import JsonOption, ModelArgument

if TYPE_CHECKING:
    from hodgeformer.predict.member import Member


def models(as_json: JsonOption = False) -> None:
    """List the models that come with the package."""
    from hodgeformer.predict.pretrained import bundled_models

    found = bundled_models()
    if as_json:
        rows = [
            {"name": m.name, "summary": m.summary, "path": str(m.path), "bytes": m.path.stat().st_size}
            for m in found.values()
        ]
        print(json.dumps(rows, indent=2))
        return
    if not found:
        print("This installation has no bundled models; train one with `hodgeformer train` or try `hodgeformer demo`.")
        return
    width = max(map(len, found))
    for model in found.values():
        print(f"{model.name:<{width}}  {model.path.stat().st_size / 1e6:4.1f} MB  {model.summary}")
    print("\nUse one: hodgeformer predict NAME scan.stl    Read its card: hodgeformer info NAME")


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show what a model does, its training data and its scores."""
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.predict.pretrained import bundled_models

    described = [_facts(member) for member in Predictor.load(model).members]
    if as_json:
        print(json.dumps(described[0] if len(described) == 1 else described, indent=2, allow_nan=False))
        return
    cards = {str(m.path): m.card.rstrip() for m in bundled_models().values()}
    for number, facts in enumerate(described):
        print(end="\n" if number else "")
        width = max(map(len, facts))
        for name, value in facts.items():
            for i, line in enumerate(_lines(value)):
                print(f"{name.replace('_', ' ') if i == 0 else '':<{width}}  {line}")
        if card := cards.get(facts["file"]):
            print(f"\n{card}")


def _facts(member: Member) -> dict[str, Any]:
    info, checkpoint = member.info, member.checkpoint
    model, prepare, statistics, path = info.model, info.prepare, info.statistics, info.path
    assert path is not None
    facts: dict[str, Any] = {
        "name": info.name,
        "file": str(path),
        "bytes": path.stat().st_size,
        "task": model.task,
        "element": model.element,
        "classes": list(info.classes),
        "blocks": model.blocks,
        "made_of": model.description,
        "updates": model.updates,
        "d_model": model.d_model,
        "d_hidden": model.d_hidden,
        "n_heads": model.n_heads if set(model.blocks) & set("HT") else None,
        "stars": model.stars if "H" in model.blocks else None,
        "signed_stars": model.signed_stars if model.attends else None,
        "star_bound": model.star_bound if "D" in model.blocks and model.diffusion_bound else None,
        "parameters": checkpoint and sum(part.numel() for part in checkpoint.weights.values()),
        "pose": prepare.pose,
        "size": prepare.size,
        "n_neighbors": prepare.n_neighbors if model.attends else None,
        "features": list(prepare.features),
        "seed": prepare.seed,
        "metrics": dict(info.metrics),
        "versions": dict(info.versions),
    }
    facts = {name: value for name, value in facts.items() if value is not None}
    if prepare.scales:
        facts["columns"] = {name: {"mean": mean, "deviation": d} for name, (mean, d) in prepare.scales.items()}
    if statistics is not None:
        faces = {"minimum": statistics.n["f"][0], "median": statistics.n["f"][1], "maximum": statistics.n["f"][2]}
        facts["training_meshes"] = statistics.n_meshes
        facts["training_faces"] = faces
    return facts


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name.replace('_', ' ')}: {_words(part)}" for name, part in value.items()] or ["none"]
    if isinstance(value, list):
        return [", ".join(map(str, value)) or "none"]
    return [_number(value)]


def _words(value: Any) -> str:
    parts = value.items() if isinstance(value, dict) else ()
    return ", ".join(f"{name} {_number(part)}" for name, part in parts) or _number(value)


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
