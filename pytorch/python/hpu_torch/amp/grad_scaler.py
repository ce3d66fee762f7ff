# SPDX-License-Identifier: Apache-2.0
"""GradScaler for hpu: PyTorch's switches itself off where there is no CUDA, and refuses other devices' losses. bfloat16 needs none
(GradScaler(enabled=False) does nothing), float16 does."""
from collections import abc, defaultdict

import torch
from torch.cuda.amp.grad_scaler import GradScaler as _Base
from torch.cuda.amp.grad_scaler import _refresh_per_optimizer_state


class GradScaler(_Base):
    """As torch.cuda.amp.GradScaler, also for parameters on several hpu devices; the same state_dict()."""

    def __init__(self, init_scale=2.**16, growth_factor=2., backoff_factor=.5, growth_interval=2000, enabled=True):
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval, enabled=False)
        if not enabled:
            return
        if growth_factor <= 1 or not 0 < backoff_factor < 1:
            raise ValueError(f"growth_factor is above 1 and backoff_factor between 0 and 1, not {growth_factor} and {backoff_factor}")
        self._enabled = True
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale = self._growth_tracker = None
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def scale(self, outputs):
        if not self._enabled:
            return outputs
        if isinstance(outputs, torch.Tensor):
            if outputs.device.type != "hpu":
                raise ValueError(f"expected a loss on hpu, but it is on {outputs.device}")
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, abc.Iterable):
            return type(outputs)(map(self.scale, outputs)) if isinstance(outputs, (list, tuple)) else map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        found, gradients = {}, defaultdict(list)
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if not allow_fp16 and parameter.grad.dtype == torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    gradients[parameter.grad.device].append(parameter.grad)
            for device, list_ in gradients.items():
                found[device] = torch.zeros_like(found_inf, device=device)
                torch._amp_foreach_non_finite_check_and_unscale_(list_, found[device], inv_scale.to(device))
        return found

    def unscale_(self, optimizer):
        """As PyTorch's, without a step through float64, which the device does not have."""
        if self._enabled and self._scale is not None and self._scale.device.type == "hpu":
            scale = self._scale
            self._scale = _OnDevice(scale)
            try:
                return super().unscale_(optimizer)
            finally:
                self._scale = scale
        return super().unscale_(optimizer)

    def update(self, new_scale=None):
        if self._enabled and isinstance(new_scale, torch.Tensor):
            if new_scale.numel() != 1 or new_scale.requires_grad:
                raise ValueError("new_scale should be a float or a 1-element tensor with requires_grad=False")
            new_scale = float(new_scale)
        return super().update(new_scale)


class _OnDevice:
    """The scale while PyTorch asks it for self._scale.double().reciprocal().float()."""

    def __init__(self, scale):
        self.scale, self.device = scale, scale.device

    def double(self):
        return self.scale
