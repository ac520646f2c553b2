"""report.html: one self-contained page about a run and the scores of its model."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from hodgeformer.base.files import write_atomically
from hodgeformer.data.dataset import DataSet
from hodgeformer.draw.page import embedded_page, labeled_scene
from hodgeformer.draw.render import render
from hodgeformer.training.evaluate import Answer
from hodgeformer.training.listener import Row
from hodgeformer.training.metrics import Scores
from hodgeformer.training.outcome import Outcome
from hodgeformer.training.setup import Setup

_LARGEST_CONFUSION = 40  # classes; a larger table is not readable
_PICTURE_WIDTH = 900
_WIDTH, _HEIGHT = 460, 280  # of a chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 34, 34
_COLORS = {"train": "#0072b2", "val": "#d55e00", "test": "#009e73"}

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; color: #1c2330 }
h1 { margin-bottom: 0 } table { border-collapse: collapse; margin: 0.5rem 0 } .scroll { overflow-x: auto }
td, th { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #e3e6eb }
td:first-child, th:first-child { text-align: left }
.charts { display: flex; flex-wrap: wrap; gap: 1rem } .charts svg { width: 460px; max-width: 100% }
svg text { font-size: 12px; fill: #4a5361 } svg .end { text-anchor: end } svg .middle { text-anchor: middle }
svg .grid { stroke: #e3e6eb } svg .line { fill: none; stroke-linecap: round; stroke-linejoin: round }
figure { margin: 1rem 0 } figure img { max-width: 100% } pre { background: #f5f6f8; padding: 1rem; overflow-x: auto }
.swatch { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em }
.share { display: block; background: rgba(0, 114, 178, calc(0.7 * var(--share))) }
"""


def write_report(path: Path, setup: Setup, rows: Sequence[Row], outcome: Outcome, answers: Sequence[Answer]) -> None:
    """Curves, scores, per-class table, confusion matrix, pictures of some predictions and the configuration."""
    dataset, scores = setup.dataset, outcome.scores
    title = escape(f"{dataset.name}: {dataset.task}")
    sections = [
        f"<h1>{title}</h1><p>{_summary(setup, outcome)}</p>",
        f'<div class="charts">{_charts(rows, dataset.element)}</div>',
    ]
    if scores is not None:
        sections += [_values(scores, str(outcome.split)), _classes(scores, dataset), _confusion(scores)]
        sections.append(_calibration(scores))
    if answers and dataset.task != "regression":
        sections.append("<h2>Predictions</h2>" + "".join(_figure(dataset, answer) for answer in answers))
    sections.append(f"<h2>Configuration</h2><pre>{escape(setup.config.toml())}</pre>")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style>{''.join(sections)}</html>\n"
    )
    write_atomically(path, page.encode())


def _summary(setup: Setup, outcome: Outcome) -> str:
    chosen = "best by validation" if setup.monitored == "val" else "last"
    return (
        f"Training meshes: {len(setup.census.training)}. Epochs: {outcome.epochs}, in {outcome.elapsed / 60:.1f} "
        f"minutes, {100 * outcome.waited:.0f} % of it waiting for data. Scores are those of the {chosen} checkpoint."
    )


def _charts(rows: Sequence[Row], element: str) -> str:
    def points(name: str) -> list[tuple[float, float]]:
        return [(float(row["epoch"]), float(row[name])) for row in rows if row.get(name) not in (None, "")]

    accuracy = {split: points(f"{split}_{element}_accuracy") for split in _COLORS}
    return _chart("loss", {"train": points("train_loss")}) + _chart(f"{element} accuracy", accuracy, highest=1.0)


def _chart(title: str, series: Mapping[str, ArrayLike], highest: float = 0.0) -> str:
    """SVG: a line over the epochs for each split that has values, in its color; a single value is a dot."""
    lines = {split: np.array(points) for split, points in series.items() if np.size(points)}
    if not lines:
        return ""
    every = np.concatenate(list(lines.values()))
    low, high = np.minimum(every.min(axis=0), (np.inf, 0)), np.maximum(every.max(axis=0), (0, highest))
    high = np.where(high > low, high, low + 1)
    corner, size = (_LEFT, _HEIGHT - _BOTTOM), (_WIDTH - _LEFT - _RIGHT, _TOP + _BOTTOM - _HEIGHT)

    def place(points: ArrayLike) -> list[list[float]]:
        places: list[list[float]] = (corner + (points - low) / (high - low) * size).round(1).tolist()
        return places

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><text x="{_LEFT}" y="16">{escape(title)}</text>']
    for y in np.linspace(low[1], high[1], 5):
        ((_, down),) = place([(low[0], y)])
        parts.append(f'<path d="M{_LEFT},{down} H{_WIDTH - _RIGHT}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{down + 4}" class="end">{y:.3g}</text>')
    for x, text in ((low[0], f"{low[0]:.4g}"), ((low[0] + high[0]) / 2, "epoch"), (high[0], f"{high[0]:.4g}")):
        ((across, _),) = place([(x, low[1])])
        parts.append(f'<text x="{across}" y="{_HEIGHT - _BOTTOM + 16}" class="middle">{text}</text>')
    for i, (split, points) in enumerate(lines.items()):
        at, line = _WIDTH - _RIGHT - 62 * (len(lines) - i), 'class="line" stroke="' + _COLORS[split]
        corners = " ".join(f"{x},{y}" for x, y in place(np.repeat(points, 2, axis=0) if len(points) == 1 else points))
        parts.append(f'<polyline points="{corners}" {line}" stroke-width="{6 if len(points) == 1 else 2}"/>')
        parts.append(f'<path d="M{at},12 h16" {line}" stroke-width="3"/><text x="{at + 22}" y="16">{split}</text>')
    return "".join([*parts, "</svg>"])


def _values(scores: Scores, split: str) -> str:
    lines = [[name.replace("_", " "), _number(value)] for name, value in scores.values.items()]
    if scores.interval is not None:
        name = f"95 % interval of the {scores.main_name.replace('_', ' ')}, bootstrap over meshes"
        lines.insert(1, [name, " to ".join(map(_number, scores.interval))])
    return _table(f"Scores on the split '{split}'", ["", ""], lines)


def _classes(scores: Scores, dataset: DataSet) -> str:
    lines = []
    for row, color in zip(scores.per_class(), dataset.colors, strict=False):
        swatch = f'<span class="swatch" style="background: rgb{color}"></span>'
        numbers = [_number(row[key]) for key in ("recall", "precision", "iou")]
        lines.append([swatch + escape(row["class"]), *numbers, str(row["elements"])])
    return _table("Classes", ["class", "recall", "precision", "IoU", _counted(scores)], lines)


def _confusion(scores: Scores) -> str:
    """The larger its share of the row, the darker a cell."""
    if scores.confusion is None or len(scores.classes) > _LARGEST_CONFUSION:
        return ""
    names = list(map(escape, scores.classes))
    shares = scores.confusion / np.maximum(scores.confusion.sum(axis=1, keepdims=True), 1)
    cells = [
        [f'<span class="share" style="--share: {share:.3f}">{n}</span>' for n, share in zip(*row, strict=True)]
        for row in zip(scores.confusion.tolist(), shares.tolist(), strict=True)
    ]
    lines = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return _table("Confusion", ["true \\ predicted", *names], lines)


def _calibration(scores: Scores) -> str:
    lines = [[_number(row[key]) for key in ("confidence", "accuracy", "share")] for row in scores.calibration()]
    head = ["mean confidence", "accuracy", f"share of {_counted(scores)}"]
    return _table("Calibration", head, lines)


def _counted(scores: Scores) -> str:
    return "meshes" if scores.element == "mesh" else f"{scores.element} elements"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4f}"


def _table(title: str, head: list[str], lines: list[list[str]]) -> str:
    """Cells are HTML already; nothing without lines."""
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    header = "".join(f"<th>{name}</th>" for name in head)
    return f'<h2>{title}</h2><div class="scroll"><table><tr>{header}</tr>{rows}</table></div>' if lines else ""


def _figure(dataset: DataSet, answer: Answer) -> str:
    """A shape in the color of its class, or predicted above true labels with the mesh in 3D below."""
    shown: dict[str, Any] = {"": answer.predicted}
    if dataset.kind is None:
        predicted, true = int(answer.predicted[0]), int(answer.target[0])
        truth = "unlabeled" if true < 0 else dataset.classes[true]
        found = f"predicted {dataset.classes[predicted]} ({answer.output[0, predicted]:.0%}), true {truth}"
    else:
        shown = {"predicted": answer.predicted, "true": answer.target}
        found = f"{dataset.element} accuracy {answer.accuracy():.1%}"
    pictures = [
        render(answer.mesh, face_colors=answer.face_colors(dataset, labels), views=3, width=_PICTURE_WIDTH, title=title)
        for title, labels in shown.items()
    ]
    stream = io.BytesIO()
    Image.fromarray(np.concatenate(pictures)).save(stream, format="PNG")
    source, caption = base64.b64encode(stream.getvalue()).decode(), escape(f"{answer.mesh.name}: {found}")
    image = f'<img alt="{caption}" src="data:image/png;base64,{source}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption>{_scene(dataset, answer)}</figure>"


def _scene(dataset: DataSet, answer: Answer) -> str:
    """The mesh in 3D, with prediction, truth, error and confidence as layers; labels of edges are not supported."""
    if dataset.element not in ("face", "vertex"):
        return ""
    scene = labeled_scene(
        answer.mesh,
        labels=answer.predicted,
        classes=dataset.classes,
        colors=dataset.colors,
        element="face" if dataset.element == "face" else "vertex",
        probabilities=answer.output,
        truth=answer.target,
    )
    return embedded_page([scene])
