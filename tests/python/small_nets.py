#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports small PyTorch networks at opsets 13 and 17 and judges the tools' results on them.

f32: hpu-verify must report `passed`. bf16: the relative RMS error of each output must be at most
--bf16-factor times that of PyTorch's own bf16 run (or 0.5 %, if that is more); where PyTorch has no
bf16 kernel, at most 2 %. Outputs of whole numbers or booleans depend on rounding and are not judged
in bf16. --all runs every target and optimisation level instead of one of each in turn.

Exit codes: 0 ok, 1 user error, 2 a result is wrong, 3 a tool failed or refused a network.
"""

import copy
import itertools
import os
import sys
import tempfile
import warnings

import numpy as np
import torch

import model_runs  # first: it makes tests/models importable
import onnx_io
from small_net_cases import CASES

OPSETS = (13, 17)
LEVELS = ("-O2", "-O0", "-O3", "-O1")
BF16_FLOOR, BF16_WITHOUT_REFERENCE = 0.005, 0.02


def as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def instantiate(case):
    """(module, inputs, outputs); the numbers depend on nothing but the case."""
    torch.manual_seed(0)
    module, *inputs = case.make()
    module.train(case.training)
    with torch.no_grad():
        outputs = as_tuple(module(*inputs))
    return module, tuple(inputs), outputs


def export(case, opset, folder):
    """Writes model.onnx and test_data_set_0 into the folder; returns their paths."""
    module, inputs, outputs = instantiate(case)
    model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "test_data_set_0")
    os.makedirs(folder)
    input_names = [f"in{k}" for k in range(len(inputs))]
    output_names = [f"out{k}" for k in range(len(outputs))]
    mode = torch.onnx.TrainingMode
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, model, opset_version=opset, input_names=input_names,
                          output_names=output_names, do_constant_folding=not case.training,
                          training=mode.PRESERVE if case.training else mode.EVAL)
    onnx_io.save_data_set(data, [(n, t.numpy()) for n, t in zip(input_names, inputs)],
                          [(n, t.numpy()) for n, t in zip(output_names, outputs)])
    return model, data


def bf16_limits(case, factor):
    """The relative RMS error that each output may have in bf16; None for those not judged."""
    module, inputs, outputs = instantiate(case)
    try:
        with torch.no_grad():
            rounded = as_tuple(copy.deepcopy(module).bfloat16()(
                *(t.bfloat16() if t.is_floating_point() else t for t in inputs)))
    except RuntimeError:  # this version of PyTorch lacks a bf16 kernel
        rounded = [None] * len(outputs)
    limits = []
    for output, low in zip(outputs, rounded):
        if not output.is_floating_point():
            limits.append(None)
            continue
        limit = BF16_WITHOUT_REFERENCE
        if low is not None:
            error = onnx_io.error_metrics([low.float().numpy()], [output.numpy()])["rel_rms"]
            if np.isfinite(error):
                limit = max(BF16_FLOOR, factor * error)
        limits.append(limit)
    return limits


def judge_bf16(outcome, limits):
    """The outcome with bf16's criterion in place of hpu-verify's own, which is elementwise."""
    if outcome.code not in (model_runs.OK, model_runs.WRONG):
        return outcome
    outputs = outcome.report["outputs"]
    for output, limit in zip(outputs, limits):
        ratio = output["rms_ratio"]  # null for NaN
        output["passed"] = limit is None or (ratio is not None and ratio <= limit)
        output["limit"] = limit
    passed = len(outputs) == len(limits) and all(output["passed"] for output in outputs)
    return model_runs.Outcome(model_runs.OK if passed else model_runs.WRONG, "", outcome.report)


def configurations(index, everything):
    """(opset, target, level, precision) of each run of the case with this index."""
    if everything:
        return list(itertools.product(OPSETS, model_runs.TARGETS, LEVELS, ("f32", "bf16")))
    targets = model_runs.TARGETS
    return [(13, targets[index % 3], LEVELS[index % 4], "f32"),
            (17, targets[(index + 1) % 3], "-O2", "bf16")]


def verify(args, case, index, work):
    """Exit codes of the runs of one case; prints what is wrong."""
    models = {opset: export(case, opset, os.path.join(work, f"{case.name}-{opset}"))
              for opset in OPSETS}
    limits, codes = bf16_limits(case, args.bf16_factor), []
    for opset, target, level, precision in configurations(index, args.all):
        flags = ["--cpu", "native", "--target", target, level, "--precision", precision]
        outcome = model_runs.hpu_verify(args.build, *models[opset], flags, work, args.timeout)
        if precision == "bf16":
            outcome = judge_bf16(outcome, limits)
        codes.append(outcome.code)
        if outcome.code:
            limit = f" (limits {limits})" if precision == "bf16" else ""
            print(f"FAIL  {case.name}, opset {opset}, {' '.join(flags)}: {outcome.summary}{limit}",
                  flush=True)
    return codes


def parse(argv):
    parser = model_runs.formatted_parser(__doc__)
    model_runs.add_arguments(parser)
    parser.add_argument("nets", nargs="*", metavar="NET", help="which ones (default: all)")
    parser.add_argument("--half", action="store_true", help="every second net")
    parser.add_argument("--all", action="store_true", help="every target and optimisation level")
    parser.add_argument("--bf16-factor", type=float, default=1.25)
    args = model_runs.parse(parser, argv)
    unknown = [name for name in args.nets if name not in CASES]
    if unknown:
        print(f"error: there is no net '{unknown[0]}'; there are {', '.join(CASES)}", file=sys.stderr)
        sys.exit(1)
    args.nets = args.nets or list(CASES)[::2 if args.half else 1]
    return args


def main(argv=None):
    args = parse(argv)
    torch.set_num_threads(1)
    codes, failed = [], 0
    for index, (name, case) in enumerate(CASES.items()):
        if name not in args.nets:
            continue
        with tempfile.TemporaryDirectory(prefix="small-nets-") as work:
            found = verify(args, case, index, work)
        codes += found
        failed += any(found)
    print(f"{len(args.nets)} nets, {len(codes)} runs, {failed} nets failed")
    return model_runs.exit_code(codes)


if __name__ == "__main__":
    sys.exit(main())
