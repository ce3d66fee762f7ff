# SPDX-License-Identifier: Apache-2.0
"""The table of ops: its page in docs, and that each row is an op of this PyTorch that can arrive on hpu. HPU_UPDATE=1 writes the page."""
import os
import pathlib

import torch

import hpu_torch
from hpu_torch import ops

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "aten-ops.md"


def test_the_page_is_the_table():
    if os.environ.get("HPU_UPDATE"):
        PAGE.write_text(ops.page())
    assert PAGE.read_text() == ops.page(), "HPU_UPDATE=1 ctest -R ^pytorch_ops writes docs/aten-ops.md"


def test_limits_are_of_ops_of_the_table():
    named = {op for names in hpu_torch._C.table_limits() for op in names.split()}
    assert not named - set(hpu_torch.ops_table())
    assert all(text for text in hpu_torch._C.table_limits().values())


def test_rows_are_ops_that_reach_the_device():
    """What libtorch composes for every device never comes to the recorder, unless it is claimed there."""
    claimed = {"convolution", "convolution_backward", "native_group_norm", "native_layer_norm"}
    names = [name for name in hpu_torch._C.table() if not name.startswith("hpu::")]
    kinds = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    assert len(names) > 300
    assert not [name for name in names if name not in claimed
                if any(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", kind) for kind in kinds)]
