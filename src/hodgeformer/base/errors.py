"""Every error that hodgeformer raises on purpose.

A message reports what is wrong (expected, found), where (file, line, element) and what to do.
"""

from __future__ import annotations


class HodgeFormerError(Exception):
    """Base of all errors raised by hodgeformer."""


class MeshError(HodgeFormerError):
    """A mesh cannot be used: no faces, coordinates that are not numbers, indices out of range."""


class MeshFormatError(MeshError):
    """A file cannot be read as a mesh."""


class DataError(HodgeFormerError):
    """A data set or a label file is incomplete or does not fit its meshes."""


class BatchError(HodgeFormerError):
    """Tensors, patterns or meshes that do not fit together."""


class ConfigError(HodgeFormerError):
    """A setting is unknown or has an invalid value."""


class CheckpointError(HodgeFormerError):
    """A checkpoint cannot be read, or belongs to another version or model."""


class OutputError(HodgeFormerError):
    """A result cannot be written: no such folder, no permission, a full disk."""


class BackendUnavailable(HodgeFormerError):
    """The requested kernel backend cannot run on this machine."""
