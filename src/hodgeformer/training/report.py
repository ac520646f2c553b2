"""report.html: one self-contained page about a run and the scores of its model."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
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

Points = Sequence[tuple[float, float]]

_LARGEST_CONFUSION = 40  # classes; a larger table is not readable
_PICTURE_WIDTH = 900
_CHART_WIDTH, _CHART_HEIGHT = 460, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 34, 34
_COLORS = {"train": "#0072b2", "val": "#d55e00", "test": "#009e73"}

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; color: #1c2330 }
h1 { margin-bottom: 0 } table { border-collapse: collapse; margin: 0.5rem 0 }
td, th { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #e3e6eb }
td:first-child, th:first-child { text-align: left } .scroll { overflow-x: auto }
.charts { display: flex; flex-wrap: wrap; gap: 1rem } .charts svg { width: 460px; max-width: 100% }
svg text { font-size: 12px; fill: #4a5361 } svg .end { text-anchor: end } svg .middle { text-anchor: middle }
svg .grid { stroke: #e3e6eb } figure { margin: 1rem 0 } figure img { max-width: 100% } pre { background: #f5f6f8;
padding: 1rem; overflow-x: auto } .swatch { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em }
"""


def write_report(path: Path, setup: Setup, rows: Sequence[Row], outcome: Outcome, answers: Sequence[Answer]) -> None:
    """Curves, scores, per-class table, confusion matrix, pictures of some predictions and the configuration."""
    dataset = setup.dataset
    title = html.escape(f"{dataset.name}: {dataset.task}")
    sections = [
        f"<h1>{title}</h1><p>{_summary(setup, outcome)}</p>",
        f'<div class="charts">{_charts(rows, dataset.element)}</div>',
    ]
    if outcome.scores is not None:
        sections.append(f"<h2>Scores on the split '{outcome.split}'</h2>{_scores(outcome.scores)}")
        sections.append(_classes(outcome.scores, dataset.colors))
        sections.append(_confusion(outcome.scores))
        sections.append(_calibration(outcome.scores))
    if answers and dataset.task != "regression":
        paint = _whole if dataset.kind is None else _labeled
        sections.append("<h2>Predictions</h2>" + "".join(paint(dataset, answer) for answer in answers))
    sections.append(f"<h2>Configuration</h2><pre>{html.escape(setup.config.toml())}</pre>")
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
    def points(name: str) -> Points:
        return [(float(row["epoch"]), float(row[name])) for row in rows if row.get(name) not in (None, "")]

    losses = {"train": points("train_loss")}
    accuracy = {split: points(f"{split}_{element}_accuracy") for split in _COLORS}
    return _line_chart("loss", losses) + _line_chart(f"{element} accuracy", accuracy, y_range=(0.0, 1.0))


def _line_chart(title: str, series: dict[str, Points], *, y_range: tuple[float, float] | None = None) -> str:
    """SVG text: a line over the epochs for each split, in its color; title and legend are above the axes.

    Empty lines are omitted; a single point is a dot.
    """
    series = {name: points for name, points in series.items() if points}
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    if not xs:
        return ""
    x_range = (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1)
    low, high = y_range or (min(0.0, *ys), max(ys) if max(ys) > min(0.0, *ys) else 1.0)

    def place(x: float, y: float) -> str:
        across = _LEFT + (x - x_range[0]) / (x_range[1] - x_range[0]) * (_CHART_WIDTH - _LEFT - _RIGHT)
        down = _CHART_HEIGHT - _BOTTOM - (y - low) / (high - low) * (_CHART_HEIGHT - _TOP - _BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [f'<svg viewBox="0 0 {_CHART_WIDTH} {_CHART_HEIGHT}" role="img">']
    for i in range(5):
        y = low + (high - low) * i / 4
        start, end = place(x_range[0], y), place(x_range[1], y)
        parts.append(f'<path d="M{start} L{end}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{float(start.split(",")[1]) + 4:.1f}" class="end">{y:.3g}</text>')
    for x in x_range:
        across = place(x, low).split(",")[0]
        parts.append(f'<text x="{across}" y="{_CHART_HEIGHT - _BOTTOM + 16}" class="middle">{x:.4g}</text>')
    middle = (_LEFT + _CHART_WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_CHART_HEIGHT - 4}" class="middle">epoch</text>')
    parts.append(f'<text x="{_LEFT}" y="16">{html.escape(title)}</text>')
    for i, (split, points) in enumerate(series.items()):
        color, at = _COLORS[split], _CHART_WIDTH - _RIGHT - 62 * (len(series) - i)
        line = " ".join(place(x, y) for x, y in (points if len(points) > 1 else [*points, *points]))
        style = f'fill="none" stroke="{color}" stroke-linecap="round" stroke-linejoin="round"'
        parts.append(f'<polyline points="{line}" {style} stroke-width="{2 if len(points) > 1 else 6}"/>')
        parts.append(f'<path d="M{at},12 h16" {style} stroke-width="3"/><text x="{at + 22}" y="16">{split}</text>')
    return "".join([*parts, "</svg>"])


def _scores(scores: Scores) -> str:
    lines = [[_spoken(name), _number(value)] for name, value in scores.values.items()]
    if scores.interval is not None:
        low, high = scores.interval
        text = f"{_number(low)} to {_number(high)}"
        lines.insert(1, [f"95 % interval of the {_spoken(scores.main_name)}, bootstrap over meshes", text])
    return _table(["", ""], lines)


def _classes(scores: Scores, colors: Sequence[tuple[int, int, int]]) -> str:
    lines = []
    for row, color in zip(scores.per_class(), colors, strict=False):
        swatch = f'<span class="swatch" style="background: rgb{color}"></span>'
        numbers = [_number(row[key]) for key in ("recall", "precision", "iou")]
        lines.append([swatch + html.escape(row["class"]), *numbers, str(row["elements"])])
    if not lines:
        return ""
    element = "meshes" if scores.element == "mesh" else f"{scores.element} elements"
    return "<h2>Classes</h2>" + _table(["class", "recall", "precision", "IoU", element], lines)


def _confusion(scores: Scores) -> str:
    if scores.confusion is None or len(scores.classes) > _LARGEST_CONFUSION:
        return ""
    lines = []
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        total = max(int(counts.sum()), 1)
        cells = "".join(_shaded(int(n), n / total) for n in counts)
        lines.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("true \\ predicted", *scores.classes))
    return f'<h2>Confusion</h2><div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _shaded(count: int, share: float) -> str:
    """A cell that is darker the larger its share of the row; on dark ones the number is white."""
    ink = "; color: white" if share > 0.6 else ""
    return f'<td style="background: rgba(0,114,178,{share:.3f}){ink}">{count}</td>'


def _calibration(scores: Scores) -> str:
    rows = scores.calibration()
    if not rows:
        return ""
    lines = [[_number(row[key]) for key in ("confidence", "accuracy", "share")] for row in rows]
    element = "meshes" if scores.element == "mesh" else f"{scores.element} elements"
    text = "<p>The accuracy of predictions by their confidence.</p>"
    return f"<h2>Calibration</h2>{text}" + _table(["mean confidence", "accuracy", f"share of {element}"], lines)


def _table(head: list[str], lines: list[list[str]]) -> str:
    """Cells are HTML already."""
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{rows}</table>"


def _spoken(name: str) -> str:
    return html.escape(name.replace("_", " "))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _whole(dataset: DataSet, answer: Answer) -> str:
    """The shape in the color of its class."""
    predicted, true = int(answer.predicted[0]), int(answer.target[0])
    colors = answer.face_colors(dataset, answer.predicted)
    picture = render(answer.mesh, face_colors=colors, views=3, width=_PICTURE_WIDTH)
    names = dataset.classes
    truth = "unlabeled" if true < 0 else names[true]
    caption = f"{answer.mesh.name}: predicted {names[predicted]} ({answer.output[0, predicted]:.0%}), true {truth}"
    return _figure(caption, picture)


def _labeled(dataset: DataSet, answer: Answer) -> str:
    """Predicted above true labels."""
    pictures = [
        render(answer.mesh, face_colors=answer.face_colors(dataset, labels), views=3, width=_PICTURE_WIDTH, title=title)
        for title, labels in (("predicted", answer.predicted), ("true", answer.target))
    ]
    caption = f"{answer.mesh.name}: {dataset.element} accuracy {answer.accuracy():.1%}"
    return _figure(caption, np.concatenate(pictures), _page(dataset, answer))


def _page(dataset: DataSet, answer: Answer) -> str:
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


def _figure(caption: str, picture: NDArray[np.uint8], interactive: str = "") -> str:
    """A picture with its caption. `interactive` is HTML shown below it, such as a mesh in 3D."""
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, format="PNG")
    source, caption = base64.b64encode(stream.getvalue()).decode(), html.escape(caption)
    image = f'<img alt="{caption}" src="data:image/png;base64,{source}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption>{interactive}</figure>"
