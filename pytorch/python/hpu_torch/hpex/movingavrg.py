# SPDX-License-Identifier: Apache-2.0
"""FusedEMA: a moving average of a model's parameters and buffers."""
import copy
import math

import torch
from torch import nn


class FusedEMA:
    """`ema` is the averaged model, in eval(). update(model): average = d * average + (1 - d) * value, with d = decay * (1 - exp(-updates / 2000)), for all that
    is a float; the rest (counters) is copied."""

    def __init__(self, model, decay=.9999, updates=0):
        if decay < 0:
            raise ValueError(f"FusedEMA: decay is not negative, as {decay} is")
        self.ema = copy.deepcopy(self._bare(model)).eval().requires_grad_(False)
        self.decay, self.updates = lambda x: decay * (1 - math.exp(-x / 2000)), updates

    @staticmethod
    def _bare(model):
        return model.module if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)) else model

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d, values = self.decay(self.updates), self._bare(model).state_dict()
        for name, average in self.ema.state_dict().items():
            if average.is_floating_point():
                average.mul_(d).add_(values[name].detach().to(average.device), alpha=1 - d)
            else:
                average.copy_(values[name])

    def update_attr(self, model, include=(), exclude=("process_group", "reducer")):
        for name, value in self._bare(model).__dict__.items():
            if (not include or name in include) and not name.startswith("_") and name not in exclude:
                setattr(self.ema, name, value)


__all__ = ["FusedEMA"]
