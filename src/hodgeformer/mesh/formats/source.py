"""The files that a mesh is read from, each read once, and a budget for what is made of them in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hodgeformer.base.errors import MeshFormatError

_TIMES, _FREE = 12, 96 << 20


class Source:
    """A mesh file, and the files beside it that it names.

    A few bytes can ask for gigabytes: one buffer under a thousand names, one part at a thousand places. Readers
    therefore say what they are about to hold, and a file may ask for 96 MB and 12 times its bytes on disk. Files count
    once, however often they are named. With what comes and goes meanwhile, reading takes less than 20 times the bytes.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data = path, data
        self._n_bytes, self._held = len(data), 0
        self._by_name: dict[str, bytes | None] = {}
        self._by_file: dict[Any, bytes] = {}

    def hold(self, n_bytes: int, what: str) -> None:
        """Count what is about to be held in memory, and refuse too much of it."""
        self._held += int(n_bytes)
        most = _FREE + _TIMES * self._n_bytes
        if self._held > most:
            raise MeshFormatError(
                f"{self.path}: {what} would take more than {most / 2**20:,.0f} MB of memory, too much for a file of "
                f"{self._n_bytes:,} bytes; export the mesh again as plain triangles, each part once"
            )

    def beside(self, name: str, *, has_geometry: bool = False) -> bytes | None:
        """A file that the mesh names, if it is one and in the folder of the mesh: nothing outside is read.

        What holds geometry is part of the mesh and adds to the budget; anything else has to fit in it.
        """
        if name not in self._by_name:
            try:
                self._by_name[name] = self._read(name, has_geometry)
            except (OSError, ValueError):  # too long, a zero byte, no permission
                self._by_name[name] = None
        return self._by_name[name]

    def _read(self, name: str, has_geometry: bool) -> bytes | None:
        folder = self.path.parent
        file = (folder / name).resolve()
        if not (file.is_relative_to(folder.resolve()) and file.is_file()):
            return None
        if file == self.path.resolve():
            return self.data
        about = file.stat()
        # Links share an inode; a store has none.
        key = (about.st_dev, about.st_ino) if isinstance(file, Path) and about.st_ino else file
        if key not in self._by_file:
            if has_geometry:
                self._n_bytes += about.st_size
            else:
                self.hold(about.st_size, f"the file {name[:60]!r} that it names")
            self._by_file[key] = file.read_bytes()
        return self._by_file[key]
