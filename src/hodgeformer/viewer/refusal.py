"""A request that is turned down, with the status and the one line that the page shows."""

from __future__ import annotations

from hodgeformer.errors import HodgeFormerError


class Refusal(HodgeFormerError):
    """What a person did that the server cannot do, and what helps."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
