"""The models a person can pick from: named beforehand, read when first used, a few kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Prediction

if TYPE_CHECKING:
    from hodgeformer.mesh.prepare import PrepareConfig
    from hodgeformer.nn.model import HodgeFormer

MAX_LOADED = 3


class Model(Protocol):
    """What the viewer asks of a model; `report` is told the fraction of the work that is done.

    `network` and `preparation` are for looking inside.
    """

    @property
    def network(self) -> HodgeFormer: ...

    @property
    def preparation(self) -> PrepareConfig: ...

    def predict(self, mesh: Mesh, report: Callable[[float], None]) -> Prediction: ...


@dataclass(frozen=True)
class Entry:
    """A model on the shelf: how it is read, and what to say of it."""

    load: Callable[[], Model]
    description: str = ""


class Shelf:
    """Models by name. A request can only name what lies here, never a path.

    `inside` is held while a model runs to be looked into, so that hooks of two requests do not meet.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = dict(entries)
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        self._lock = threading.Lock()
        self.inside = threading.Lock()

    def check_name(self, name: str) -> None:
        if name not in self.entries:
            raise Refusal(404, f"There is no model '{name[:80]}'; pick one of the list.")

    def model(self, name: str) -> Model:
        """The model, read from disk if it is not in memory."""
        self.check_name(name)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self.entries[name].load()
            self._loaded.move_to_end(name)
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)
            return self._loaded[name]
