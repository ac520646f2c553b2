"""The files that a mesh is read from, each read once, and a memory budget for their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hodgeformer.base.errors import MeshFormatError

_TIMES, _FREE = 12, 96 << 20


class Source:
    """A mesh file, and the files in its folder that it names.

    A few bytes can request gigabytes: one buffer under a thousand names, one part at a thousand positions. Readers
    therefore reserve memory before they use it, and a file may reserve 96 MB plus 12 times its size on disk. A file
    counts once, however often it is named. With temporary arrays, reading needs less than 20 times the size.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data = path, data
        self._n_bytes, self._reserved = len(data), 0
        self._by_name: dict[str, bytes | None] = {}
        self._by_file: dict[Any, bytes] = {}

    def reserve(self, n_bytes: int, what: str) -> None:
        """Count memory that is about to be used, and raise an error if it is too much."""
        self._reserved += int(n_bytes)
        most = _FREE + _TIMES * self._n_bytes
        if self._reserved > most:
            raise MeshFormatError(
                f"{self.path}: {what} would need more than {most / 2**20:,.0f} MB of memory, too much for a file of "
                f"{self._n_bytes:,} bytes; export the mesh again as plain triangles, each part once"
            )

    def beside(self, name: str, *, has_geometry: bool = False) -> bytes | None:
        """The content of a file that the mesh names; None outside of the folder of the mesh, which is never read.

        Files with geometry are part of the mesh and increase the budget; others must fit in it.
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
        status = file.stat()
        # Links share an inode; remote files have none.
        key = (status.st_dev, status.st_ino) if isinstance(file, Path) and status.st_ino else file
        if key not in self._by_file:
            if has_geometry:
                self._n_bytes += status.st_size
            else:
                self.reserve(status.st_size, f"the file {name[:60]!r} that it names")
            self._by_file[key] = file.read_bytes()
        return self._by_file[key]
