# SPDX-License-Identifier: Apache-2.0
"""The ops torch.ops.hpu.* of 8-bit floats, with keywords."""
import torch

from .. import _C

E4M3, E5M2 = torch.uint8, torch.int8


def largest(dtype, device=None):
    """The largest number of a format: E4M3 has 240 on Gaudi 2 and 448 on Gaudi 3, E5M2 57344."""
    if dtype == E5M2:
        return 57344.
    if dtype != E4M3:
        raise ValueError(f"fp8 codes are torch.uint8 (E4M3) or torch.int8 (E5M2) tensors, not {dtype}")
    index = -1 if device is None or torch.device(device).index is None else torch.device(device).index
    target = _targets.get(index) or _targets.setdefault(index, _C.describe_device(index)["target"])
    return 240. if target == "gaudi2" else 448.


_targets = {}


def cast_to_fp8(x, scale=None, dtype=E4M3, amax=False):
    """Codes of x * scale, rounded to nearest even; beyond the largest number comes that number. amax=True: (codes, largest magnitude of x)."""
    codes, magnitude = torch.ops.hpu.cast_to_fp8_v2(x, scale, False, amax, dtype)
    return (codes, magnitude) if amax else codes


def cast_from_fp8(codes, scale_inv=None, dtype=torch.bfloat16):
    """What the codes stand for, times scale_inv."""
    return torch.ops.hpu.cast_from_fp8(codes, scale_inv, dtype)


def fp8_gemm(a, b, a_scale_inv=None, b_scale_inv=None, bias=None, dtype=torch.bfloat16, trans_a=False, trans_b=False):
    """a @ b of codes, times both scales (each one number; or one for each row of the result for a, for each column for b), plus bias."""
    return torch.ops.hpu.fp8_gemm_v2(a, trans_a, b, trans_b, None, dtype, a_scale_inv, b_scale_inv, bias, False)
