"""Seeded damage to files, each tried within a limit of time and memory.

`attack` counts what became of every damaged file, makes what failed small, and keeps it in `build/attack`.
`make attack` tries as many files and forms as HODGEFORMER_ATTACK_FILES says, another draw with HODGEFORMER_ATTACK_SEED.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from attack.attempts import Attempts

ALL, FEW = int(os.environ.get("HODGEFORMER_ATTACK_FILES", "100000")), 320
PART = ALL // 5  # so that several processes can share the work; each part starts a process that compiles
SEED = int(os.environ.get("HODGEFORMER_ATTACK_SEED", "0"))
KEPT = Path(__file__).resolve().parents[2] / "build" / "attack"
_FINE = ("accepted", "refused")
_SHRINK_ATTEMPTS = 150
_AT_ONCE = 100
CHANGES = "damage by"  # a row of the table for each kind of change
_LARGEST = 2 << 20  # bytes: repetitions of repetitions are no longer mistakes but floods
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NAME = re.compile(rb"\d+|[A-Za-z_][\w.]*")
_NUMBERS = (
    *(b"0", b"-1", b"1e400", b"-1e308", b"1e-320", b"nan", b"inf", b"2147483647", b"-2147483649", b"4294967296"),
    *(b"9223372036854775808", b"1" * 400, b"0.5", b"1e9", b"100000000", b"--3", b"0x10", b"1_000", b"\xd9\xa3", b""),
)
_WORDS = (
    *(b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\xca\x9a\x3b"),
    *(b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\x01", b"\x80", b"\xfe\xff", b"\xef\xbb\xbf", b"\x3b\x9a\xca\0"),
)


def mutated(files: Sequence[bytes], rng: Random, made: Counter[str] | None = None) -> bytes:
    """One of the files with one to four changes, whose kinds are counted."""
    data, kinds = rng.choice(files), set()
    for _ in range(rng.choice((1, 1, 2, 4))):
        change = rng.choice(_CHANGES)
        data = change(data, rng, files)[:_LARGEST]
        kinds.add(_KINDS.get(change, "other damage"))
    if made is not None:
        made.update(kinds)
    return data


def _flip(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _cut(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    begin = rng.randrange(len(data) + 1)
    return data[:begin] + data[begin + rng.choice((1, 2, 4, 12, 100)) :]


def _repeat(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    begin = rng.randrange(len(data) + 1)
    part = data[begin : begin + rng.choice((1, 4, 30, 300))]
    return data[:begin] + part * rng.choice((2, 3, 50, 2000)) + data[begin:]


def _repeat_line(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    """One line, or one of what stands between the commas of JSON, very often."""
    sign = b"\n" if b"\n" in data else b","
    parts = data.split(sign)
    i = rng.randrange(len(parts))
    return sign.join(parts[:i] + parts[i : i + 1] * rng.choice((2, 50, 5000)) + parts[i:])


def _nest(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    """Brackets in brackets in the place of a value, deeper than any parser goes."""
    found = list(_NUMBER.finditer(data[: 1 << 16]))
    if not found:
        return _overwrite(data, rng, files)
    match, (left, right) = rng.choice(found), rng.choice(((b"[", b"]"), (b"{", b"}"), (b'{"a":', b"}")))
    deep = rng.choice((3, 500, 100_000))
    return data[: match.start()] + left * deep + right * rng.choice((0, deep)) + data[match.end() :]


def _refer(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    """One name or number of the file in the place of another: what is named may then be itself, or come in a circle."""
    found = list(_NAME.finditer(data[: 1 << 16]))
    if len(found) < 2:
        return _renumber(data, rng, files)
    one, other = rng.choice(found), rng.choice(found)
    return data[: one.start()] + other.group() + data[one.end() :]


def _splice(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    other = rng.choice(files)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _renumber(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    """Another number in the place of one that is written as text: a coordinate, an index or a count."""
    found = list(_NUMBER.finditer(data[: 1 << 16]))
    if not found:
        return _overwrite(data, rng, files)
    match = rng.choice(found[: rng.choice((4, 12, len(found)))])
    return data[: match.start()] + rng.choice(_NUMBERS) + data[match.end() :]


def _overwrite(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    """Another number in the place of one that is written as bytes."""
    word = rng.choice(_WORDS)
    begin = rng.randrange(len(data) + 1)
    begin -= begin % rng.choice((1, 4))
    return data[:begin] + word + data[begin + len(word) :]


def _swap_lines(data: bytes, rng: Random, files: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


_CHANGES = (
    *(_flip, _cut, _remove, _repeat, _repeat_line, _nest, _refer, _splice, _renumber, _renumber),
    *(_overwrite, _swap_lines),
)
_KINDS = {_repeat: "repetition", _repeat_line: "repetition", _nest: "nesting", _refer: "self-reference", _cut: "cut"}


@dataclass
class Outcomes:
    """How often each thing happened to the files of each kind, and the files that failed, made small."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    failures: list[Path] = field(default_factory=list)

    @property
    def table(self) -> str:
        columns = sorted(set().union(*self.counts.values()) | set(_FINE))
        rows = [["", *columns], *([kind, *(str(n[c]) for c in columns)] for kind, n in self.counts.items())]
        rows.append(["all", *(str(sum(n[c] for n in self.counts.values())) for c in columns)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def tally(what: str, n: int, became: str) -> None:
    """A row of the table that `make attack` ends with, where it asks for one; n is 0 for what other rows count."""
    table = os.environ.get("HODGEFORMER_ATTACK_TABLE")
    if table:
        with Path(table).open("a", encoding="utf-8") as stream:
            stream.write(f"{what}\t{n}\t{became}\n")


def assert_all_are_answered(
    target: str, kinds: Mapping[str, Sequence[bytes]], n: int, folder: Path, part: int = 0
) -> None:
    """Attack, print the table, and fail where a file was neither used nor refused, or every file of a kind was."""
    outcomes = attack(target, kinds, n=n, seed=1000 * SEED + part, folder=folder)
    sys.stdout.write(f"\n{n} damaged files\n{outcomes.table}\n")
    for kind, counts in outcomes.counts.items():
        tally(f"damaged {kind}", counts.total(), ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for kind, made in sorted(outcomes.made.items()):
        tally(f"{CHANGES} {kind}", 0, f"{made} files")
    assert not outcomes.failures, f"{outcomes.table}\n{[str(path) for path in outcomes.failures]}"
    for kind, counts in outcomes.counts.items():
        # Of a few none may be left, and where the content is compared, no change passes.
        looked_behind = counts["accepted"] or counts.total() < 30 or kind == ".safetensors"
        assert looked_behind, f"no {kind} survives: too much damage to look behind the door"


def attack(target: str, kinds: Mapping[str, Sequence[bytes]], *, n: int, seed: int, folder: Path) -> Outcomes:
    """Try n damaged files of the kinds, which are suffixes, in turn; `target` names a function `module:name(path)`.

    It is fine for the function to come back or to raise an error of ours.
    """
    rng, outcomes = Random(seed), Outcomes({kind: Counter() for kind in kinds})
    with Attempts(target) as worker:
        whole = [_written(folder / f"whole{i}{kind}", data) for kind in kinds for i, data in enumerate(kinds[kind])]
        list(worker.attempts(whole, limited=False))  # compiles
        for start in range(0, n, _AT_ONCE):
            suffixes = [list(kinds)[i % len(kinds)] for i in range(start, min(start + _AT_ONCE, n))]
            cases = [
                _written(folder / f"case{i}{k}", mutated(kinds[k], rng, outcomes.made)) for i, k in enumerate(suffixes)
            ]
            for path, outcome in list(zip(cases, worker.attempts(cases), strict=True)):
                outcomes.counts[path.suffix][outcome] += 1
                if outcome not in _FINE and outcomes.counts[path.suffix][outcome] == 1:
                    small = _shrunk(path.read_bytes(), partial(_fails, worker, path, outcome), rng)
                    KEPT.mkdir(parents=True, exist_ok=True)
                    kept = KEPT / f"{hashlib.sha256(small).hexdigest()[:12]}{path.suffix}"
                    outcomes.failures.append(_written(kept, small))
    return outcomes


def _fails(worker: Attempts, path: Path, outcome: str, data: bytes) -> bool:
    return next(worker.attempts([_written(path, data)])) == outcome


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _shrunk(data: bytes, fails: Callable[[bytes], bool], rng: Random) -> bytes:
    """Fewer bytes that fail in the same way: parts are left out as long as that works."""
    size = len(data) // 2
    for _ in range(_SHRINK_ATTEMPTS):
        size = max(1, min(size, len(data) - 1))
        begin = rng.randrange(max(1, len(data) - size + 1))
        less = data[:begin] + data[begin + size :]
        if less and fails(less):
            data = less
        else:
            size = size * 3 // 4
    return data
