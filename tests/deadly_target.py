"""A target that kills. Worker processes import it by name, so it stands outside the tests themselves."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from hodgeformer.mesh.mesh import Mesh


class KillsItsProcess:
    """A target that takes its reader down, as the system does when memory runs out."""

    def read(self, mesh: Mesh) -> np.ndarray:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(0)
