"""The drawings of docs/method.md, as SVG: `python docs/drawings.py`, or `make pictures`.

Symbols are written as in TeX: `x_v`, `d_0^T`, `*_0^{-1}`; a star is the Hodge star.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
INK, FAINT = "#26303c", "#8a94a0"
FORMS = {"v": "#cfe3f7", "e": "#fde3c4", "f": "#d3eed2"}
STAR, EXACT, PLAIN = "#f7d4dd", "#eceff2", "#ffffff"
BLOCKS = {"H": STAR, "T": "#e2d9f3"}
_SIZE = 15
_PIECE = re.compile(r"[_^](?:\{([^}]*)\}|(.))")


class Drawing:
    """Boxes, arrows and text on a white ground."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def box(self, x: float, y: float, text: str, fill: str, *, w: float = 92, h: float = 40) -> tuple[float, float]:
        """A box around (x, y) with a line or two of text; returns its center."""
        self.parts.append(
            f'<rect x="{x - w / 2:g}" y="{y - h / 2:g}" width="{w:g}" height="{h:g}" rx="6" fill="{fill}" '
            f'stroke="{INK}" stroke-width="1.2"/>'
        )
        lines = text.split("\n")
        for i, line in enumerate(lines):
            self.text(x, y + (i - (len(lines) - 1) / 2) * (_SIZE + 3), line)
        return x, y

    def plus(self, x: float, y: float) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="white" stroke="{INK}" stroke-width="1.2"/>')
        self.text(x, y - 1, "+", size=18)

    def text(self, x: float, y: float, text: str, *, size: int = _SIZE, color: str = INK, at: str = "middle") -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y + size * 0.35:g}" font-size="{size}" fill="{color}" text-anchor="{at}">'
            f"{''.join(_pieces(text, size))}</text>"
        )

    def arrow(self, *points: tuple[float, float], dashed: bool = False, head: bool = True) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        end = ' marker-end="url(#head)"' if head else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.3"{dash}{end}/>')

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{INK}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def _pieces(text: str, size: int) -> Iterator[str]:
    """Text with lowered and raised parts."""
    text = text.replace("*", "★")
    at, lowered = 0, 0.0
    for found in _PIECE.finditer(text):
        yield from _plain(text[at : found.start()], lowered)
        lowered = 0.0 if found.start() > at else lowered
        to = size * (0.28 if found[0][0] == "_" else -0.42)
        yield f'<tspan dy="{to - lowered:.2f}" font-size="{size * 0.72:.1f}">{found[1] or found[2]}</tspan>'
        at, lowered = found.end(), to
    yield from _plain(text[at:], lowered)


def _plain(text: str, lowered: float) -> Iterator[str]:
    if text:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;")
        yield f'<tspan dy="{-lowered:.2f}">{escaped}</tspan>' if lowered else escaped


def chain(draw: Drawing, y: float, steps: list[tuple[str, str, str]], *, x: float = 70, gap: float = 138) -> float:
    """Boxes from left to right, each with what is written over the arrow behind it; returns the last center."""
    for number, (text, fill, form) in enumerate(steps):
        at = x + number * gap
        draw.box(at, y, text, fill)
        if number + 1 < len(steps):
            draw.arrow((at + 46, y), (at + gap - 46, y))
            draw.text(at + gap / 2, y - 14, form, size=12, color=FAINT)
    return x + (len(steps) - 1) * gap


def laplacian() -> Drawing:
    """The Laplacian of a 0-form: two exact derivatives, two stars (figure 1)."""
    draw = Drawing(770, 330)
    corners = {"primal v": (150, 80), "primal e": (600, 80), "dual e": (600, 245), "dual v": (150, 245)}
    names = {
        "primal v": "0-form x_v\non vertices",
        "primal e": "1-form\non edges",
        "dual e": "dual 1-form\non dual edges",
        "dual v": "dual 2-form\non dual cells",
    }
    for corner, (x, y) in corners.items():
        draw.box(x, y, names[corner], FORMS[corner[-1]], w=150, h=58)
    draw.arrow((225, 80), (525, 80))
    draw.arrow((600, 109), (600, 216))
    draw.arrow((525, 245), (225, 245))
    draw.arrow((150, 216), (150, 109))
    draw.text(375, 62, "d_0", size=18)
    draw.text(375, 100, "exact: head minus tail of every edge", size=12, color=FAINT)
    draw.text(618, 162, "*_1", size=18, at="start")
    draw.text(650, 162, "learned from x_e", size=12, color=FAINT, at="start")
    draw.text(375, 227, "d_0^T", size=18)
    draw.text(375, 265, "exact: sum over the edges at a vertex", size=12, color=FAINT)
    draw.text(132, 162, "*_0^{-1}", size=18, at="end")
    draw.text(164, 162, "learned from x_v", size=12, color=FAINT, at="start")
    draw.text(375, 312, "L_v = *_0^{-1} d_0^T *_1 d_0", size=18)
    return draw


def operators() -> Drawing:
    """How L_v, L_e and L_f are formed and applied, right to left in the formula (figures 3 and S1 to S3)."""
    draw = Drawing(940, 760)
    v, e, f = FORMS.values()
    y = 120
    draw.text(24, 34, "A_v = L_v V_v,   L_v = *_0^{-1}(x_v) d_0^T *_1(x_e) d_0", size=17, at="start")
    last = chain(draw, y, [
        ("V_v = x_v W_V", v, "n_v"), ("d_0", EXACT, "n_e"), ("*_1", STAR, "n_e"), ("d_0^T", EXACT, "n_v"),
        ("*_0^{-1}", STAR, "n_v"), ("W_O", PLAIN, ""),
    ])  # fmt: skip
    _fed(draw, 70 + 2 * 138, y, "e", "x_e")
    _fed(draw, 70 + 4 * 138, y, "v", "x_v")
    draw.arrow((last + 46, y), (last + 96, y))
    formula = "L_e = d_0 *_0^{-1}(x_v) d_0^T *_1(x_e) + *_1^{-1}(x_e) d_1^T *_2(x_f) d_1"
    draw.text(24, 234, f"A_e = L_e V_e,   {formula}", size=17, at="start")
    upper, lower = 320, 470
    draw.box(70, (upper + lower) / 2, "V_e = x_e W_V", e)
    ways = {
        upper: [("*_1", STAR, "n_e"), ("d_0^T", EXACT, "n_v"), ("*_0^{-1}", STAR, "n_v"), ("d_0", EXACT, "")],
        lower: [("d_1", EXACT, "n_f"), ("*_2", STAR, "n_f"), ("d_1^T", EXACT, "n_e"), ("*_1^{-1}", STAR, "")],
    }
    middle = (upper + lower) / 2
    for at, steps in ways.items():
        end = chain(draw, at, steps, x=208)
        draw.arrow((116, middle), (139, middle), (139, at), (162, at))
        draw.arrow((end + 46, at), (710, at), (710, middle + (-11 if at == upper else 11)))
    draw.plus(710, middle)
    draw.arrow((721, middle), (760, middle))
    draw.box(806, middle, "W_O", PLAIN)
    draw.arrow((852, middle), (902, middle))
    for number, at, kind in ((0, upper, "e"), (2, upper, "v"), (1, lower, "f"), (3, lower, "e")):
        _fed(draw, 208 + number * 138, at, kind, f"x_{kind}")
    draw.text(24, 584, "A_f = L_f V_f,   L_f = d_1 *_1^{-1}(x_e) d_1^T *_2(x_f)", size=17, at="start")
    y = 660
    last = chain(draw, y, [
        ("V_f = x_f W_V", f, "n_f"), ("*_2", STAR, "n_f"), ("d_1^T", EXACT, "n_e"), ("*_1^{-1}", STAR, "n_e"),
        ("d_1", EXACT, "n_f"), ("W_O", PLAIN, ""),
    ])  # fmt: skip
    _fed(draw, 70 + 138, y, "f", "x_f")
    _fed(draw, 70 + 3 * 138, y, "e", "x_e")
    draw.arrow((last + 46, y), (last + 96, y))
    stars = "softmax over S_i of q k^T / sqrt(d_h), q = LN(x W_Q), k = LN(x W_K), each with its own W_Q, W_K"
    draw.text(470, 745, f"red: learned stars, {stars}; gray: exact", size=12, color=FAINT)
    return draw


def _fed(draw: Drawing, x: float, y: float, kind: str, name: str) -> None:
    """The form that a star reads, below it."""
    draw.box(x, y + 54, name, FORMS[kind], w=46, h=26)
    draw.arrow((x, y + 41), (x, y + 21), dashed=True)


def layer() -> Drawing:
    """One H block on v, e and f: attention and feed-forward, two residuals (figure 2)."""
    draw = Drawing(760, 580)
    reads = {"v": "L_v(x_v, x_e) V_v", "e": "L_e(x_v, x_e, x_f) V_e", "f": "L_f(x_e, x_f) V_f"}
    for kind, x in {"v": 130, "e": 380, "f": 630}.items():
        fill = FORMS[kind]
        for start, end in ((482, 275), (254, 95)):
            draw.arrow((x, start), (x + 105, start), (x + 105, end), (x + 12, end))
            draw.plus(x, end)
        draw.box(x, 520, f"x_{kind}", fill, w=70)
        draw.arrow((x, 500), (x, 461))
        draw.box(x, 440, "LN", PLAIN)
        draw.arrow((x, 420), (x, 375))
        draw.box(x, 345, reads[kind], STAR, w=186, h=58)
        draw.arrow((x, 316), (x, 287))
        draw.arrow((x, 264), (x, 241))
        draw.box(x, 220, "LN", PLAIN)
        draw.arrow((x, 200), (x, 171))
        draw.box(x, 150, "FF", fill)
        draw.arrow((x, 130), (x, 107))
        draw.arrow((x, 84), (x, 61))
        draw.box(x, 40, f"x_{kind}", fill, w=70)
    caption = "red: Hodge attention A_H; each operator reads the normalized forms in its parentheses"
    draw.text(380, 564, caption, size=12, color=FAINT)
    return draw


def stack() -> Drawing:
    """From a mesh to an answer, and the stacks of the paper (figures 4, S6 and the mixing study)."""
    draw = Drawing(940, 520)
    xs = {"v": 70, "e": 110, "f": 150}
    columns = {"v": "7", "e": "21", "f": "13"}
    for kind, y in xs.items():
        draw.box(100, y, f"x_{kind} in, {columns[kind]}", FORMS[kind], w=120, h=30)
        draw.box(290, y, "MLP(x + A x)", FORMS[kind], w=130, h=30)
        draw.arrow((160, y), (224, y))
        draw.arrow((355, y), (408, y))
    draw.text(100, 36, "features", size=13, color=FAINT)
    draw.text(290, 36, "neighbor embedding", size=13, color=FAINT)
    draw.box(500, 110, "H and T blocks,\nthen LN", STAR, w=180, h=110)
    draw.arrow((590, 110), (640, 110))
    draw.box(730, 85, "mean, linear", PLAIN, w=170, h=34)
    draw.box(730, 135, "carry to faces, linear", PLAIN, w=170, h=34)
    draw.arrow((640, 110), (640, 85), (645, 85), head=False)
    draw.arrow((640, 110), (640, 135), (645, 135), head=False)
    draw.text(730, 52, "head", size=13, color=FAINT)
    draw.arrow((815, 85), (845, 85))
    draw.arrow((815, 135), (845, 135))
    draw.text(850, 85, "class", at="start")
    draw.text(850, 135, "parts", at="start")
    rows = [
        ("HHTHHTHH", "Human: six H, mixed 2 : 1 with two T"),
        ("HHHHHHTT", "SHREC11, cubes, COSEG: six H, then two T"),
        ("HHHH", "mixing study, 4 : 0"),
        ("HHHHTT", "mixing study, 4 : 2"),
        ("HHTHHT", "mixing study, 2 : 1"),
        ("HTHTHTHT", "mixing study, 1 : 1"),
    ]
    for number, (blocks, text) in enumerate(rows):
        y = 230 + 48 * number
        for i, letter in enumerate(blocks):
            draw.box(60 + 52 * i, y, letter, BLOCKS[letter], w=36, h=32)
            if i:
                draw.arrow((60 + 52 * i - 34, y), (60 + 52 * i - 18, y))
        draw.text(500, y, text, at="start")
    legend = "H: Hodge attention; T: linear attention over all elements of a kind"
    draw.text(42, 508, legend, size=12, color=FAINT, at="start")
    return draw


DRAWINGS = {"laplacian": laplacian, "layer": layer, "operators": operators, "stack": stack}

if __name__ == "__main__":
    for name, drawn in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(drawn().svg(), encoding="utf-8")
