# SPDX-License-Identifier: Apache-2.0
"""The names of habana_frameworks.torch.core."""
import os

import torch

from . import _C, hpu, step_closure  # noqa: F401: htcore.hpu is torch.hpu
from .step_closure import add_step_closure  # noqa: F401


def mark_step(device_str="", sync=False):
    """Runs what has been recorded so far (in lazy mode; in eager mode nothing is left to run). sync=True waits for the device."""
    index = torch.device(device_str).index if device_str else None
    _C.flush(-1 if index is None else index)
    if sync:
        _C.synchronize(-1 if index is None else index)
    step_closure.run_step_closures()


def iter_mark_step(device_str=""):
    """mark_step() of a training loop's iteration."""
    mark_step(device_str)


def hpu_initialize(model=None, optimizer=None, args=None, **options):
    """Opens the current device, which else its first use does. Returns the model. (Gaudi's bridge prepares what quantised models name.)"""
    hpu.init()
    return model


_inference = ("PT_HPU_INFERENCE_MODE", "EXPERIMENTAL_WEIGHT_SHARING")


def hpu_set_env(*_options):
    """Says to who asks the environment that this is inference, before a model is made. Nothing here depends on it."""
    os.environ.update({name: "1" for name in _inference})


hpu_set_inference_env = hpu_set_env


def hpu_inference_set_env(*_options):
    """hpu_set_env() and inference mode."""
    hpu_set_env()
    hpu.enable_inference_mode()


def hpu_inference_initialize(model=None, mark_only_scales_as_const=False, mark_scales=False, mark_non_scales=True):
    """Inference mode, for a model that has been moved to the device; returns it in eval()."""
    hpu.init()
    hpu_inference_set_env()
    return model.eval() if model is not None else None


def hpu_teardown_inference_env(*_options):
    """Undoes hpu_inference_set_env()."""
    for name in _inference:
        os.environ.pop(name, None)
    hpu.disable_inference_mode()


hpu_reset_env = hpu_teardown_inference_env


def is_lazy():
    return _C.is_lazy()
