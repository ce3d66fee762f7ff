# SPDX-License-Identifier: Apache-2.0
"""Optimisers whose step is a few ops over lists of all parameters; in lazy mode they are part of the step's graph, and fused by it."""
import math

import torch
from torch.optim import SGD, Adagrad, Optimizer

from .. import core


def _loss_of(closure):
    """What a step's closure gives; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _with_gradients(group):
    """(parameters, gradients) of a group, of those that have one."""
    parameters = [p for p in group["params"] if p.grad is not None]
    if any(p.grad.is_sparse for p in parameters):
        raise RuntimeError("fused optimisers take no sparse gradients")
    return parameters, [p.grad for p in parameters]


class FusedAdamW(Optimizer):
    """torch.optim.AdamW. correct_bias=False leaves out the correction for the moments' zeros at the beginning."""

    def __init__(self, params, lr=1e-3, betas=(.9, .999), eps=1e-6, weight_decay=0., correct_bias=True, bias_correction=True, neumann=False):
        if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"FusedAdamW: lr and eps are not negative, betas are in [0, 1); they are {lr}, {eps} and {betas}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, correct_bias=correct_bias and bias_correction))

    @torch.no_grad()
    def step(self, closure=None):
        loss = _loss_of(closure)
        for group in self.param_groups:
            parameters, gradients = _with_gradients(group)
            if not parameters:
                continue
            for p in parameters:
                if not self.state[p]:
                    self.state[p].update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                self.state[p]["step"] += 1
            (beta1, beta2), lr = group["betas"], group["lr"]
            means, squares = [self.state[p]["exp_avg"] for p in parameters], [self.state[p]["exp_avg_sq"] for p in parameters]
            if group["weight_decay"] != 0:
                torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
            torch._foreach_mul_(means, beta1)
            torch._foreach_add_(means, gradients, alpha=1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
            by_step = {}
            for i, p in enumerate(parameters):
                by_step.setdefault(self.state[p]["step"], []).append(i)
            for step, which in by_step.items():
                first = 1 - beta1 ** step if group["correct_bias"] else 1.
                second = math.sqrt(1 - beta2 ** step) if group["correct_bias"] else 1.
                divisors = torch._foreach_sqrt([squares[i] for i in which])
                torch._foreach_div_(divisors, second)
                torch._foreach_add_(divisors, group["eps"])
                torch._foreach_addcdiv_([parameters[i] for i in which], [means[i] for i in which], divisors, -lr / first)
        return loss


class FusedSGD(SGD):
    """torch.optim.SGD over lists."""

    def __init__(self, params, lr, momentum=0, weight_decay=0, dampening=0, nesterov=False):
        super().__init__(params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, foreach=True)


class FusedAdagrad(Adagrad):
    """torch.optim.Adagrad over lists."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10):
        super().__init__(params, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps, foreach=True)


class FusedResourceApplyMomentum(SGD):
    """accumulator = momentum * accumulator + gradient; parameter -= lr * accumulator."""

    def __init__(self, params, lr, momentum=.9):
        super().__init__(params, lr=lr, momentum=momentum, foreach=True)


class FusedLamb(Optimizer):
    """LAMB (You et al., 2019) with the norm of all gradients bounded first (max_grad_norm=None: not). grad_averaging=False adds gradients to the first
    moment as they are; adam_w_mode=False decays through the gradient; use_lamb=True adapts the rates of parameters that do not decay, too."""

    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(.9, .999), eps=1e-6, weight_decay=.01, amsgrad=False, adam_w_mode=True, grad_averaging=True,
                 set_grad_none=True, max_grad_norm=1., use_lamb=False, fused=False, dtype=None):
        if amsgrad:
            raise ValueError("FusedLamb has no variant with amsgrad")
        super().__init__(params, dict(lr=lr, bias_correction=bias_correction, betas=betas, eps=eps, weight_decay=weight_decay, grad_averaging=grad_averaging,
                                      max_grad_norm=max_grad_norm))
        self.adam_w_mode, self.set_grad_none, self.use_lamb = adam_w_mode, set_grad_none, use_lamb

    def zero_grad(self, set_to_none=None):
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        loss = _loss_of(closure)
        clip, bound = None, self.defaults["max_grad_norm"]
        if bound is not None:
            every = [g for group in self.param_groups for g in _with_gradients(group)[1]]
            if every:
                clip = (torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g.float()) for g in every])) / bound).clamp(min=1.)
        for group in self.param_groups:
            parameters, gradients = _with_gradients(group)
            if not parameters:
                continue
            group["step"] = step = group.get("step", 0) + 1
            (beta1, beta2), decay = group["betas"], group["weight_decay"]
            first = 1 - beta1 ** step if group["bias_correction"] else 1.
            second = 1 - beta2 ** step if group["bias_correction"] else 1.
            for p, g in zip(parameters, gradients):
                g = g.float() if clip is None else g.float() / clip
                if not self.adam_w_mode:
                    g = g + p.float() * decay
                state = self.state[p]
                if not state:
                    state.update(exp_avg=torch.zeros_like(g), exp_avg_sq=torch.zeros_like(g))
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mean.mul_(beta1).add_(g, alpha=1 - beta1 if group["grad_averaging"] else 1.)
                square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                update = (mean / first) / ((square / second).sqrt() + group["eps"])
                if self.adam_w_mode and decay != 0:
                    update = update + p.float() * decay
                if decay != 0 or self.use_lamb:
                    of_weight, of_update = torch.linalg.vector_norm(p.float()), torch.linalg.vector_norm(update)
                    update = update * torch.where((of_weight > 0) & (of_update > 0), of_weight / of_update, torch.ones_like(of_weight))
                p.add_(update.to(p.dtype), alpha=-group["lr"])
        return loss


class FusedLars(Optimizer):
    """LARS around another optimiser: scales gradients by eeta * |p| / (|g| + weight_decay * |p| + eps) where skip_mask says 1, and adds the decay itself."""

    def __init__(self, optimizer, skip_mask, eeta=.001, eps=1e-8):
        self.optim, self.skip_mask, self.eeta, self.eps = optimizer, skip_mask, eeta, eps

    param_groups = property(lambda self: self.optim.param_groups)
    state = property(lambda self: self.optim.state)
    defaults = property(lambda self: self.optim.defaults)

    def state_dict(self):
        return self.optim.state_dict()

    def load_state_dict(self, state):
        self.optim.load_state_dict(state)

    def zero_grad(self, set_to_none=False):
        self.optim.zero_grad(set_to_none)

    def __repr__(self):
        return f"FusedLars({self.optim!r}, eeta={self.eeta}, eps={self.eps})"

    @torch.no_grad()
    def step(self, closure=None):
        decays, loss = [], None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.optim.param_groups:
            decay = group.get("weight_decay", 0)
            decays.append(decay)
            for i, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                if not self.skip_mask[i]:
                    continue
                of_weight, of_gradient = torch.linalg.vector_norm(p), torch.linalg.vector_norm(p.grad)
                rate = self.eeta * of_weight / (of_gradient + decay * of_weight + self.eps)
                rate = torch.where((of_weight > 0) & (of_gradient > 0), rate, torch.ones_like(rate))
                p.grad.add_(p, alpha=decay).mul_(rate)
            if "weight_decay" in group:
                group["weight_decay"] = 0
        try:
            self.optim.step()
        finally:
            for group, decay in zip(self.optim.param_groups, decays):
                if "weight_decay" in group:
                    group["weight_decay"] = decay
        return loss


class _MarkStep:
    """mark_step() behind each step: a training loop that has none runs a graph a step."""

    def step(self, closure=None):
        loss = super().step(closure)
        core.mark_step()
        return loss


class Adam(_MarkStep, torch.optim.Adam):
    pass


class AdamW(_MarkStep, torch.optim.AdamW):
    pass


__all__ = ["Adam", "AdamW", "FusedAdagrad", "FusedAdamW", "FusedLamb", "FusedLars", "FusedResourceApplyMomentum", "FusedSGD"]
