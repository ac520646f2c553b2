"""Code of the documentation: its blocks, and running them as a reader does, from a file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from clock import PATIENCE

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def run_as_script(code: str, folder: Path) -> str:
    """What `python script.py` prints in a folder; the script has no `if __name__ == "__main__":`."""
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, script.name]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, f"{code}\n{run.stdout}\n{run.stderr}"
    return run.stdout
