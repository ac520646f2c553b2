"""Code of the documentation: its blocks, and running them as a reader does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clock import PATIENCE
from command import options, run

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def run_commands(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run every `hodgeformer ...` line of a page in a folder; how many there are, the demo left out."""
    monkeypatch.chdir(folder)
    lines = [line.split("  #")[0] for block in blocks(page, "sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("hodgeformer ")]
    commands = [words for words in commands if words != ["demo"]]  # tests/cli/test_demo.py
    for words in commands:
        # As long as the plan says would be minutes; what it does is the same.
        short = options("train.epochs=1", "model.d_model=16", "model.n_heads=2") if words[0] == "train" else []
        if "--resume" in words:
            words[-1], short = "1", []
        done = run(*words, *short)
        assert done.exit_code == 0, f"{words}\n{done.output}"
    return len(commands)


def run_here(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, for what does not depend on the process."""
    monkeypatch.chdir(folder)
    exec(code, {"__name__": "page"})


def run_as_script(code: str, folder: Path) -> str:
    """What `python script.py` prints in a folder; the script has no `if __name__ == "__main__":`."""
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, script.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout
