# SPDX-License-Identifier: Apache-2.0
"""Mixed precision as Gaudi's first bridges had it (Lightning 1.9 calls it): a switch for the program, not a context."""
import contextlib

import torch

from .. import _C
from ..amp import get_autocast_hpu_dtype, set_autocast_hpu_dtype, set_autocast_hpu_enabled, set_op_lists


def _names(path, what):
    try:
        with open(path) as file:
            return [name for line in file for name in line.split("#")[0].replace(",", " ").split()]
    except OSError as error:
        raise ValueError(f"hmp.convert: {what}={path!r} cannot be read: {error.strerror}") from None


def convert(opt_level="O1", bf16_file_path="", fp32_file_path="", isVerbose=False):
    """From here on the calling thread computes under autocast to bfloat16, without an end and so without its cache of weights.

    opt_level "O1": PyTorch's lists of ops, or those of the files (a name in each line; the file of one list alone leaves the other as it is).
    "O2": as "O1" (Gaudi's second level casts what is in no list, too; here that keeps the types of its operands)."""
    if opt_level not in ("O1", "O2"):
        raise ValueError(f"hmp.convert: opt_level is 'O1' or 'O2', not {opt_level!r}")
    lower = _names(bf16_file_path, "bf16_file_path") if bf16_file_path else None
    fp32 = _names(fp32_file_path, "fp32_file_path") if fp32_file_path else None
    if lower is not None or fp32 is not None:
        set_op_lists(lower=lower, fp32=fp32)
    set_autocast_hpu_dtype(torch.bfloat16)
    set_autocast_hpu_enabled(True)
    torch.set_autocast_cache_enabled(False)
    _C.clear_autocast_cache()
    if isVerbose:
        print("hmp: ops in bfloat16: " + " ".join(_C.autocast_lists()[0]))


@contextlib.contextmanager
def disable_casts():
    """with hmp.disable_casts(): an optimiser's step, for instance, in the types of its operands."""
    before, dtype = _C.autocast_enabled(), get_autocast_hpu_dtype()
    set_autocast_hpu_enabled(False)
    try:
        yield
    finally:
        set_autocast_hpu_enabled(before)
        set_autocast_hpu_dtype(dtype)
