#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Gives hpu-verify hand-made models at the edge of what ONNX allows and judges what it makes of them.

Each either verifies, or is refused with exit code 1 and one clear line that matches the pattern of
its case: never a crash, a wrong number or "a bug". --levels says at which optimisation levels.

Exit codes: 0 ok, 1 user error, 2 a result is wrong or a refusal unclear, 3 the tool failed.
"""

import os
import re
import sys
import tempfile

import onnx
from onnx import helper, numpy_helper

import model_runs  # first: it makes tests/models importable
import onnx_io
import unusual_edges
import unusual_narrow
import unusual_numbers
import unusual_scatters

CASES = {case.name: case for case in
         unusual_edges.CASES + unusual_numbers.CASES + unusual_narrow.CASES + unusual_scatters.CASES}


def tensor_info(name, array, shapes):
    element = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype]
    return helper.make_tensor_value_info(name, element, shapes.get(name, list(array.shape)))


def save(case, folder):
    """Writes model.onnx and test_data_set_0 into the folder; returns their paths."""
    model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "test_data_set_0")
    os.makedirs(folder)
    graph = helper.make_graph(
        case.nodes, "unusual", [tensor_info(n, a, case.shapes) for n, a in case.inputs.items()],
        [tensor_info(n, a, case.shapes) for n, a in case.outputs],
        [numpy_helper.from_array(a, n) for n, a in case.constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", case.opset), helper.make_opsetid("example.org", 1)], ir_version=8), model)
    given = [(n, a) for n, a in case.inputs.items() if n not in case.constants]
    onnx_io.save_data_set(data, given, case.outputs)
    return model, data


def problem(case, outcome, folder):
    """(exit code, text) of what is wrong with the outcome; (0, "") if nothing is."""
    if outcome.code == model_runs.FAILED:
        return model_runs.FAILED, outcome.summary
    if case.refusal is None:
        if outcome.code == model_runs.REFUSED:
            return model_runs.WRONG, f"refused: {outcome.summary}"
        return outcome.code, outcome.summary if outcome.code else ""
    if outcome.code != model_runs.REFUSED:
        return model_runs.WRONG, f"accepted, though it should be refused (/{case.refusal}/)"
    # Paths are in the message and would satisfy patterns by accident.
    lines = outcome.message.replace(folder, "").rstrip("\n").splitlines()
    if not lines[0].startswith("error: ") or not re.search(case.refusal, lines[0]):
        return model_runs.WRONG, f"the error does not match /{case.refusal}/: {lines[0][:300]}"
    lines = [line for line in lines if line and not line.startswith("  ")]  # What is said of each node more closely.
    if len(lines) > 1 + case.table_lines:
        return model_runs.WRONG, f"{len(lines)} lines instead of {1 + case.table_lines}: {lines[:3]}"
    return model_runs.OK, ""


def parse(argv):
    parser = model_runs.formatted_parser(__doc__)
    model_runs.add_arguments(parser)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="which ones (default: all)")
    parser.add_argument("--levels", default="2", help="optimisation levels, as in 0,1,2,3")
    args = model_runs.parse(parser, argv)
    unknown = [name for name in args.cases if name not in CASES]
    args.levels = args.levels.split(",")
    if unknown or not set(args.levels) <= set("0123"):
        print(f"error: there is no case '{unknown[0]}'" if unknown else
              "error: --levels takes numbers from 0 to 3, separated by commas", file=sys.stderr)
        sys.exit(1)
    args.cases = args.cases or list(CASES)
    return args


def main(argv=None):
    args = parse(argv)
    codes = []
    for name in args.cases:
        case = CASES[name]
        with tempfile.TemporaryDirectory(prefix="unusual-models-") as work:
            model, data = save(case, os.path.join(work, "model"))
            for level in args.levels:
                flags = ["--cpu", "native", f"-O{level}", *case.flags]
                outcome = model_runs.hpu_verify(args.build, model, data, flags, work, args.timeout)
                code, text = problem(case, outcome, work)
                codes.append(code)
                if code:
                    print(f"FAIL  {name} -O{level}: {text}", flush=True)
    print(f"{len(args.cases)} models, {len(codes)} runs, {sum(map(bool, codes))} failed")
    return model_runs.exit_code(codes)


if __name__ == "__main__":
    sys.exit(main())
