# SPDX-License-Identifier: Apache-2.0
"""A linear layer whose three products are of fp8 operands."""
import torch
from torch import nn
from torch.nn import functional as F

from ..amp import get_autocast_hpu_dtype, is_autocast_hpu_enabled
from .ops import fp8_gemm
from .state import Scaling, current_settings, is_fp8_enabled


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, layer, weight_codes, weight_inv, dtype, settings):
        flat = x.detach().reshape(-1, x.shape[-1])
        codes, x_inv = layer.of_input.cast(flat, settings[0].fp8_format.forward, settings)
        y = fp8_gemm(codes, weight_codes, x_inv, weight_inv, None if bias is None else bias.detach(), dtype, trans_b=True)
        # For the backward: codes, of which an element is a byte. With minimize_memory the weight's are made again.
        ctx.save_for_backward(codes, x_inv, weight if layer.minimize_memory else weight_codes, weight_inv)
        ctx.layer, ctx.settings, ctx.sizes, ctx.types = layer, settings, x.shape, (x.dtype, weight.dtype, None if bias is None else bias.dtype)
        ctx.dtype = dtype
        return y.reshape(*x.shape[:-1], y.shape[-1])

    @staticmethod
    def backward(ctx, gradient):
        codes, x_inv, weight, weight_inv = ctx.saved_tensors
        layer, format = ctx.layer, ctx.settings[0].fp8_format
        flat = gradient.reshape(-1, gradient.shape[-1])
        of_gradient, gradient_inv = layer.of_gradient.cast(flat, format.backward, ctx.settings)
        if layer.minimize_memory:
            weight = torch.ops.hpu.cast_to_fp8_v2(weight, weight_inv.reciprocal(), False, False, format.forward)[0]
        x_type, weight_type, bias_type = ctx.types
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = fp8_gemm(of_gradient, weight, gradient_inv, weight_inv, dtype=x_type).reshape(ctx.sizes)
        if ctx.needs_input_grad[1]:
            dw = fp8_gemm(of_gradient, codes, gradient_inv, x_inv, dtype=weight_type, trans_a=True)
        if bias_type is not None and ctx.needs_input_grad[2]:
            db = flat.sum(0, dtype=torch.float32).to(bias_type)
        return dx, dw, db, None, None, None, None, None


class Linear(nn.Linear):
    """nn.Linear, and under fp8_autocast its products in fp8 (its parameters stay what they are, and so does its state_dict()).

    Between forward and backward it keeps codes of its input and of its weight, a byte for each element. minimize_memory=True keeps those of the
    input alone, and makes the weight's again in the backward. return_bias=True: (the product, the bias), not added.
    forward(x, is_first_microbatch=True) casts the weight and keeps the codes, False uses these: for several batches between two steps."""

    def __init__(self, in_features, out_features, bias=True, device=None, params_dtype=None, minimize_memory=False, return_bias=False,
                 init_method=None, dtype=None):
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=params_dtype or dtype)
        self.minimize_memory, self.return_bias = minimize_memory, return_bias
        self.of_input, self.of_weight, self.of_gradient = Scaling(), Scaling(), Scaling()
        self.kept_weight = None
        if init_method is not None:
            with torch.no_grad():
                init_method(self.weight)

    def _settings(self):
        """(recipe, group, whether magnitudes are measured: in training with gradients, or as fp8_autocast says)."""
        settings = current_settings()
        return settings[0], settings[1], self.training and torch.is_grad_enabled() if settings[2] is None else settings[2]

    def forward(self, x, is_first_microbatch=None):
        bias = None if self.return_bias else self.bias
        if not is_fp8_enabled() or x.device.type != "hpu":
            y = F.linear(x, self.weight, bias)
        else:
            settings = self._settings()
            dtype = get_autocast_hpu_dtype() if is_autocast_hpu_enabled() else x.dtype
            if is_first_microbatch is False and self.kept_weight is not None:
                codes, inverse = self.kept_weight
            else:
                codes, inverse = self.of_weight.cast(self.weight.detach(), settings[0].fp8_format.forward, settings)
                self.kept_weight = (codes, inverse) if is_first_microbatch else None
            y = _Linear.apply(x, self.weight, bias, self, codes, inverse, dtype, settings)
        return (y, self.bias) if self.return_bias else y
