"""The documentation site: `make docs` builds it into docs/_build, without network, and fails on any warning."""

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import reference  # noqa: E402

import hodgeformer  # noqa: E402

project = "hodgeformer"
author = "The hodgeformer developers"
release = version = hodgeformer.__version__
extensions = ["myst_parser"]
myst_heading_anchors = 3
nitpicky = True  # a reference that leads nowhere is a warning, and a warning is an error
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "hodgeformer"
html_static_path: list[str] = []
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
smartquotes = False  # would turn -- of options into a dash
lexers["mermaid"] = TextLexer()  # drawings of the architecture are read as text here

reference.write(HERE / "reference")
reference.write_results(HERE.parent / "RESULTS.md", HERE / "reference")


def setup(app: Any) -> None:
    """Links to the results lead to their page here, and in the repository to the file."""

    def linked(app: Any, name: str, source: list[str]) -> None:
        source[0] = re.sub(r"\]\((\.\./)+RESULTS\.md", "](/reference/results.md", source[0])

    app.connect("source-read", linked)
