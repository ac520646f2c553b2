"""Where to compute: one rule for training, prediction and evaluation."""

from __future__ import annotations

import torch

from hodgeformer.base.errors import ConfigError


def find_device(name: str = "auto") -> torch.device:
    """The device of this machine with this name; "auto" is a CUDA GPU if there is one, otherwise the CPU."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = "cuda" if there["cuda"] else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or not there.get(device.type) or (device.index or 0) >= max(1, torch.cuda.device_count()):
        found = ", ".join(f"'{kind}'" for kind, is_there in there.items() if is_there)
        raise ConfigError(f"device '{name}' is not available on this machine; use 'auto' or one of: {found}")
    return device
