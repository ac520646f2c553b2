"""The running statistics of the classification head, measured anew for weights that stand still.

While the learning rate is high they lag behind the weights so far that an accuracy read with them says nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch

from hodgeformer.nn.heads import MeshHead
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.batch import Batch


@torch.no_grad()
def recentered(model: HodgeFormer, batches: Iterable[Batch]) -> HodgeFormer:
    """A copy of the model, ready to evaluate, with the mean of the statistics of these training batches.

    The model that trains is left alone, so that evaluating more or less often changes nothing in a run. Models without
    such a head are only copied.
    """
    ready = copy.deepcopy(model).eval()
    if not isinstance(ready.head, MeshHead):
        return ready
    center = ready.head.center
    momentum, center.momentum = center.momentum, None
    center.reset_running_stats()
    center.train()
    device = ready.head.out.weight.device
    for batch in batches:
        ready(batch.to(device))
    center.eval()
    center.momentum = momentum
    return ready
