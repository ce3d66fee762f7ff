# SPDX-License-Identifier: Apache-2.0
"""8-bit floats on hpu: training with delayed scaling, and calibrated inference.

    net = nn.Sequential(fp8.Linear(64, 64), nn.ReLU(), fp8.Linear(64, 10)).to("hpu")
    with fp8.fp8_autocast(fp8_recipe=fp8.DelayedScaling(amax_history_len=16, amax_compute_algo="max")):
        loss = F.cross_entropy(net(x), target)
    loss.backward()

PyTorch 1.13 has no type for them: codes of E4M3 are in torch.uint8 tensors, codes of E5M2 in torch.int8 ones (fp8.E4M3, fp8.E5M2). A code stands for
its value times the inverse of the scale of its tensor. Products are the MME's, of 8-bit operands of one format; of two formats (the backward of
Format.HYBRID) they are products in bf16, in which both are exact."""
from .inference import QuantizedLinear, calibration, quantize
from .linear import Linear
from .ops import E4M3, E5M2, cast_from_fp8, cast_to_fp8, fp8_gemm, largest
from .recipe import DelayedScaling, Format
from .state import fp8_autocast, get_fp8_recipe, is_fp8_available, is_fp8_enabled

__all__ = ["DelayedScaling", "E4M3", "E5M2", "Format", "Linear", "QuantizedLinear", "calibration", "cast_from_fp8", "cast_to_fp8", "fp8_autocast",
           "fp8_gemm", "get_fp8_recipe", "is_fp8_available", "is_fp8_enabled", "largest", "quantize"]
