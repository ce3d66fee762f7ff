# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own database of ops and their inputs: results, types, shapes and gradients on hpu are the CPU's. What is not, is named
here with the reason."""
import sys
import types
import unittest
import warnings

import pytest
import torch

# PyTorch's test tools import a package that Debian has not, for tests of its own that are not run here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(ACCEPT=False, TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

REASONS = {
    "to_sparse": "hpu has dense tensors only",
    "sparse.sampled_addmm": "hpu has dense tensors only",
    "tensor_split": "PyTorch wants indices that are tensors on the CPU, whatever the device is",
}
# Memory that was never written is in the result, or in PyTorch's own formula of the gradient.
UNWRITTEN = ("empty", "empty_like", "new_empty", "new_empty_strided", "as_strided_scatter")
SAMPLES = 6


def moved(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("hpu").requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        parts = [moved(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: moved(part) for key, part in value.items()}
    return torch.device("hpu") if isinstance(value, torch.device) or value == "cpu" else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (list, tuple)) else []


def compare(there, here, tolerance):
    assert there.shape == here.shape and there.dtype == here.dtype
    if here.layout == torch.strided:
        assert there.device.type == "hpu" or here.numel() == 0, f"on {there.device}"
        torch.testing.assert_close(there.cpu().resolve_conj(), here.resolve_conj(), equal_nan=True, rtol=tolerance, atol=tolerance)


def gradients(outputs, inputs):
    outputs = [output for output in outputs if output.requires_grad]
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(output) for output in outputs], allow_unused=True)


def run_sample(op, sample):
    """False when the op does not take the sample on the CPU."""
    arguments = [sample.input, list(sample.args), dict(sample.kwargs)]
    try:
        torch.manual_seed(0)
        here = tensors(op(sample.input, *sample.args, **sample.kwargs))
    except Exception:  # noqa: B902: whatever it is
        return False
    input_, args, kwargs = moved(arguments)
    torch.manual_seed(0)
    there = tensors(op(input_, *args, **kwargs))
    assert len(there) == len(here)
    for one, other in zip(there, here):
        assert one.requires_grad == other.requires_grad
        if op.name not in UNWRITTEN:
            compare(one, other, 1e-4)
    leaves = [tensor for tensor in tensors(arguments) if tensor.requires_grad]
    if any(output.requires_grad for output in here) and all(output.layout == torch.strided for output in here):
        try:
            expected = gradients(here, leaves)
        except RuntimeError:
            return True  # No derivative.
        result = gradients(there, [tensor for tensor in tensors([input_, args, kwargs]) if tensor.requires_grad])
        for one, other in zip(result, expected):
            assert (one is None) == (other is None)
            if other is not None and op.name not in UNWRITTEN:
                compare(one, other, 1e-3)
    return True


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64], ids=str)
def test_ops_are_the_cpus(dtype):
    failures, count = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            if dtype not in op.dtypes:
                continue
            with_gradients = op.supports_autograd and dtype != torch.int64
            for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=with_gradients)):
                if index == SAMPLES:
                    break
                try:
                    count += run_sample(op, sample)
                except Exception as error:  # noqa: B902: told below
                    failures.setdefault(op.name, f"sample {index}: {error!r}"[:300])
    assert count > 700
    unknown = {name: text for name, text in failures.items() if name not in REASONS}
    assert not unknown, "\n".join(f"{name}: {text}" for name, text in unknown.items())
