# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own database of ops and their inputs: results, types, shapes and gradients on hpu are the CPU's, and the device computes
them. What runs on the CPU, or differs, is named with the reason in opinfo_reasons.json. HPU_OPINFO_SAMPLES: how many samples an op, of all
types; without it one of each op, and in types that few ops have code of their own for, of each third one."""
import collections
import itertools
import json
import os
import pathlib
import sys
import types
import unittest
import warnings

import pytest
import torch

from hpu_torch import fallback

# PyTorch's test tools import a package that Debian has not, for tests of its own that are not run here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(ACCEPT=False, TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DATA = json.loads((pathlib.Path(__file__).parent / "opinfo_reasons.json").read_text())
# Memory that was never written is in the result, or in PyTorch's own formula of the gradient.
UNWRITTEN = ("empty", "empty_like", "new_empty", "new_empty_strided", "as_strided_scatter")
# Which of several equal elements is named is not said.
TIES = ("topk", "kthvalue", "median", "nanmedian", "mode", "sort", "argsort", "msort")
SAMPLES = int(os.environ.get("HPU_OPINFO_SAMPLES", 0))


def moved(value, convert=lambda tensor: tensor.to("hpu"), device="hpu"):
    if isinstance(value, torch.Tensor):
        return convert(value.detach()).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        parts = [moved(part, convert, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: moved(part, convert, device) for key, part in value.items()}
    return torch.device(device) if isinstance(value, torch.device) or value == "cpu" else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (list, tuple)) else []


def compare(there, here, wide, tolerance):
    """`wide`: what the CPU computes in float32 of narrower floats, or None. The device may be as far from it as the CPU is."""
    assert there.shape == here.shape and there.dtype == here.dtype, f"{there.dtype}{list(there.shape)}, not {here.dtype}{list(here.shape)}"
    if here.layout != torch.strided:
        return
    there, here = there.detach().cpu().resolve_conj(), here.detach().resolve_conj()
    if wide is None or wide.shape != here.shape or not here.is_floating_point() or here.dtype == torch.float32:
        return torch.testing.assert_close(there, here, equal_nan=True, rtol=tolerance, atol=tolerance)
    wide, here, there = wide.detach().float(), here.float(), there.float()
    error = (here - wide).abs()
    error = error[error.isfinite()]
    slack = (error.max() if error.numel() else 0) + 2e-2 * (1 + wide.abs())
    same = ((there - wide).abs() <= slack) | (there == here) | (there.isnan() & here.isnan()) | (there == wide) | (there.isnan() & wide.isnan())
    assert same.all(), f"{there[~same][:3].tolist()}, not {here[~same][:3].tolist()} or {wide[~same][:3].tolist()}"


def gradients(outputs, inputs):
    outputs = [output for output in outputs if output.requires_grad]
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(output) for output in outputs], allow_unused=True)


def leaves(value):
    return [tensor for tensor in tensors(value) if tensor.requires_grad]


def results(op, arguments):
    """Tensors that the op returns, and the gradients of what it takes, or None."""
    torch.manual_seed(0)
    outputs = tensors(op(arguments[0], *arguments[1], **arguments[2]))
    derived = None
    if any(output.requires_grad for output in outputs) and all(output.layout == torch.strided for output in outputs):
        try:
            derived = gradients(outputs, leaves(arguments))
        except RuntimeError as error:
            derived = error
    return outputs, derived


def run_sample(op, sample):
    """False when the op does not take the sample on the CPU."""
    arguments = [sample.input, list(sample.args), dict(sample.kwargs)]
    try:
        here, derived = results(op, arguments)
    except Exception:  # noqa: B902: whatever it is
        return False
    if isinstance(derived, RuntimeError):  # No derivative, or not of this sample.
        derived = None
    wide, wide_derived = [None] * len(here), [None] * len(derived or ())
    if any(tensor.dtype in (torch.bfloat16, torch.float16) for tensor in tensors(arguments)):
        wider = moved(arguments, lambda t: t.float() if t.dtype in (torch.bfloat16, torch.float16) else t.clone(), "cpu")
        try:
            wide, wide_derived = results(op, wider)
            if isinstance(wide_derived, RuntimeError):
                wide_derived = None
        except Exception:  # noqa: B902: a sample that says its type
            pass
    there, there_derived = results(op, moved(arguments))
    assert len(there) == len(here)
    named = set(tensors(arguments)) or "device" in sample.kwargs  # A sample may say nothing of a device.
    for k, (one, other) in enumerate(zip(there, here)):
        assert one.requires_grad == other.requires_grad
        assert one.device.type == "hpu" or other.numel() == 0 or not named or other.layout != torch.strided, f"on {one.device}"
        if op.name in TIES and not other.is_floating_point() and (k == 1 or op.name == "argsort"):
            assert one.shape == other.shape and one.dtype == other.dtype
        elif op.name not in UNWRITTEN:
            compare(one, other, wide[k], 1e-2 if other.dtype == torch.bfloat16 else 1e-4)
    if derived is not None and isinstance(there_derived, RuntimeError):
        raise there_derived
    if derived is None or (op.name in TIES and any(tensor.dtype == torch.bfloat16 for tensor in here)):
        return True
    for k, (one, other) in enumerate(zip(there_derived, derived)):
        assert (one is None) == (other is None)
        if other is not None and op.name not in UNWRITTEN:
            compare(one, other, (wide_derived or [None] * 99)[k], 1e-3)
    return True


def reason_of(name, dtype, groups):
    for group in groups:
        if str(dtype).replace("torch.", "") in group.get("dtypes", [str(dtype).replace("torch.", "")]):
            for op in group["ops"]:
                if name == op or (op[-1] in "._" and name.startswith(op)):
                    return group["reason"]
    return None


class Outcome:
    def __init__(self):
        self.passed, self.failed, self.errors, self.fallbacks = 0, 0, [], collections.Counter()


def run_all(dtype, count, names=None, each=1):
    """An Outcome for each op of the database with the type, or for each third one."""
    outcomes = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [op for op in op_db if dtype in op.dtypes][::each]:
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            if names and name not in names:
                continue
            outcome = outcomes.setdefault(name, Outcome())
            with_gradients = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and dtype in op.backward_dtypes
            for index, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=with_gradients), count)):
                fallback.reset()
                try:
                    if not run_sample(op, sample):
                        continue
                    fallbacks = list(fallback.counts())
                    outcome.fallbacks.update(fallbacks)
                    outcome.passed += not fallbacks
                    outcome.failed += bool(fallbacks)
                except Exception as error:  # noqa: B902: told below
                    outcome.failed += 1
                    outcome.errors.append(f"sample {index}: {error!r}"[:300])
    return outcomes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_the_device_computes_what_the_cpu_does(dtype):
    each = 1 if SAMPLES or dtype in (torch.float32, torch.int64) else 3
    torch.hpu.set_lazy(True)
    try:
        outcomes = run_all(dtype, SAMPLES or 1, each=each)
    finally:
        torch.hpu.set_lazy(False)
    unknown, passed, failed, ops = [], 0, 0, 0
    for name, outcome in outcomes.items():
        outside = reason_of(name, dtype, DATA["on_cpu"])
        if not outside:
            ops += 1
            passed += outcome.passed
            failed += outcome.failed
        if outcome.errors and not reason_of(name, dtype, DATA["some_calls"]) and outside != "hpu has dense tensors only":
            unknown += [f"{name}: {text}" for text in outcome.errors]
        elif outcome.failed and not outside and not reason_of(name, dtype, DATA["some_calls"]):
            unknown.append(f"{name}: on the CPU: {', '.join(outcome.fallbacks)}")
    print(f"{dtype}: {ops} of {len(outcomes)} ops are of the table, {passed} of their {passed + failed} samples pass")
    assert not unknown, "\n".join(unknown)
    assert passed > 200 / each and passed >= 0.95 * (passed + failed)


def test_complex_numbers_are_the_cpus():
    outcomes = run_all(torch.complex64, SAMPLES or 1)
    unknown = [f"{name}: {text}" for name, outcome in outcomes.items() for text in outcome.errors
               if not reason_of(name, torch.complex64, DATA["on_cpu"][-2:] + DATA["some_calls"])]
    assert sum(outcome.passed + outcome.failed for outcome in outcomes.values()) > 300
    assert not unknown, "\n".join(unknown)


def test_the_reasons_are_of_ops_that_exist():
    names = [f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name for op in op_db]
    listed = [op for group in DATA["on_cpu"] + DATA["some_calls"] for op in group["ops"]]
    assert not [op for op in listed if not any(name == op or (op[-1] in "._" and name.startswith(op)) for name in names)]
