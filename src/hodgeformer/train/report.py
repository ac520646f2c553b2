"""report.html: one page without outside parts, on how a run went and what its model scores."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hodgeformer.files import write_atomically
from hodgeformer.train.curves import Points, line_chart
from hodgeformer.train.metrics import Scores
from hodgeformer.train.progress import Outcome
from hodgeformer.train.run_folder import Row
from hodgeformer.train.setup import Setup

_LARGEST_CONFUSION = 40  # classes; beyond that a table is no longer readable

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


@dataclass(frozen=True)
class Figure:
    """A picture for the report. `interactive` is HTML shown below it, a mesh to turn for instance."""

    caption: str
    png: bytes
    interactive: str = ""


def write_report(path: Path, setup: Setup, rows: Sequence[Row], outcome: Outcome, figures: Sequence[Figure]) -> None:
    """Curves, scores, per-class table, confusion matrix, pictures and the configuration."""
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
    if figures:
        sections.append("<h2>Predictions</h2>" + "".join(_figure(figure) for figure in figures))
    sections.append(f"<h2>Configuration</h2><pre>{html.escape(setup.config.toml())}</pre>")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style>{''.join(sections)}</html>\n"
    )
    write_atomically(path, page.encode())


def _summary(setup: Setup, outcome: Outcome) -> str:
    chosen = "best by validation" if setup.monitored == "val" else "last"
    return (
        f"{len(setup.inventory.entries)} training meshes, {outcome.epochs} epochs in {outcome.elapsed / 60:.1f} "
        f"minutes, {100 * outcome.waited:.0f} % of it waiting for data. Scores are those of the {chosen} checkpoint."
    )


def _charts(rows: Sequence[Row], element: str) -> str:
    def points(name: str) -> Points:
        return [(float(row["epoch"]), float(row[name])) for row in rows if row.get(name) not in (None, "")]

    losses = {"training loss": points("train_loss")}
    accuracy = {
        f"{split} {element} accuracy": points(f"{split}_{element}_accuracy") for split in ("train", "val", "test")
    }
    return line_chart(losses, x_label="epoch") + line_chart(accuracy, x_label="epoch", y_range=(0.0, 1.0))


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
        cells = "".join(f'<td style="background: rgba(0,114,178,{n / total:.3f})">{n}</td>' for n in counts)
        lines.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("true \\ predicted", *scores.classes))
    return f'<h2>Confusion</h2><div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _figure(figure: Figure) -> str:
    source = base64.b64encode(figure.png).decode()
    caption = html.escape(figure.caption)
    picture = f'<img alt="{caption}" src="data:image/png;base64,{source}">'
    return f"<figure>{picture}<figcaption>{caption}</figcaption>{figure.interactive}</figure>"


def _table(head: list[str], lines: list[list[str]]) -> str:
    """Cells are HTML already."""
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{rows}</table>"


def _spoken(name: str) -> str:
    return html.escape(name.replace("_", " "))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"
