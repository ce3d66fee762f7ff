# SPDX-License-Identifier: Apache-2.0
"""FusedRMSNorm and FusedClipNorm."""
import torch


class FusedRMSNorm:
    """FusedRMSNorm.apply(x, gamma, eps): x / sqrt(mean(x^2) + eps) * gamma over the last dim, computed in f32, in the type of x. What follows (stages, modes of
    the backward) chooses among Gaudi's kernels and changes no result."""

    @staticmethod
    def apply(x, gamma, eps, *_modes):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * gamma.float()).to(x.dtype)


class FusedClipNorm:
    """clip_norm(parameters) bounds the 2-norm of all gradients, in place, and returns what it was, on the device: nothing waits for it."""

    def __init__(self, parameters, max_norm):
        if max_norm < 0:
            raise ValueError(f"FusedClipNorm: max_norm is not negative, as {max_norm} is")
        self.max_norm = float(max_norm)

    @torch.no_grad()
    def clip_norm(self, parameters):
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return torch.tensor(0.)
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g.float()).to(gradients[0].device) for g in gradients]))
        factor = (self.max_norm / (norm + 1e-6)).clamp(max=1.)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.device))
        return norm


__all__ = ["FusedClipNorm", "FusedRMSNorm"]
