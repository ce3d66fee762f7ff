# SPDX-License-Identifier: Apache-2.0
"""Layers in fp8 under the names of Gaudi's bridge: hpu_torch.fp8, with its defaults."""
from hpu_torch.fp8 import fp8_autocast
from hpu_torch.fp8 import Linear as _Linear

from . import fp8, recipe  # noqa: F401

__all__ = ["Linear", "fp8_autocast", "recipe"]


class Linear(_Linear):
    """hpu_torch.fp8.Linear that is made on hpu. What belongs to tensor parallelism is refused."""

    def __init__(self, in_features, out_features, sequence_parallel=False, tp_group=None, tp_size=1, init_method=None, bias=True, return_bias=False,
                 params_dtype=None, parallel_mode=None, skip_weight_param_allocation=False, minimize_memory=False, device="hpu"):
        for name, value, plain in (("sequence_parallel", sequence_parallel, False), ("tp_group", tp_group, None), ("tp_size", tp_size, 1),
                                   ("parallel_mode", parallel_mode, None), ("skip_weight_param_allocation", skip_weight_param_allocation, False)):
            if value != plain:
                raise NotImplementedError(f"te.Linear: {name}={value!r} is not there; only {plain!r} is")
        super().__init__(in_features, out_features, bias=bias, device=device, params_dtype=params_dtype, minimize_memory=minimize_memory,
                         return_bias=return_bias, init_method=init_method)
