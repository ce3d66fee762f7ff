#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs quantised models in f32 and judges them: against their data sets, and against ONNX Runtime when
benchmarks/ort has its packages (npm ci --ignore-scripts).

A value on the border between two steps may round either way, so an output may be off by a step: the tolerance is 1 %
of the largest output, and the classes found must agree in all but 1 % of the rows. Weights must be constants of the
recipe: no kernel may dequantise them in each run. Exit codes: 0 ok, 2 wrong, 3 a tool failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ORT = os.path.join(HERE, "..", "..", "benchmarks", "ort")
sys.path.insert(0, os.path.join(HERE, "..", "models"))

# pylint: disable=wrong-import-position
import numpy as np
import onnx_io


def tool(build, *arguments):
    result = subprocess.run([os.path.join(build, "bin", arguments[0]), *arguments[1:]], capture_output=True, text=True,
                            check=False)
    if result.returncode not in (0, 2):
        print(f"{' '.join(arguments)}: {result.stderr.strip()}", file=sys.stderr)
        sys.exit(3)
    return result.stdout


def ort_verdict(model, data, outputs, scratch):
    """ONNX Runtime's opinion on our outputs; None when it is not installed."""
    if shutil.which("node") is None or not os.path.isdir(os.path.join(ORT, "node_modules", "onnxruntime-node")):
        return None
    inputs = [(f"input_{k}", array) for k, array in enumerate(onnx_io.load_data_set(data, "input"))]
    onnx_io.save_data_set(scratch, inputs, outputs)
    result = subprocess.run(["node", os.path.join(ORT, "ort_bench.js"), model, "--data", scratch, "--iters", "1",
                             "--warmup", "0", "--check", "--rtol", "0", "--atol", "0.01"], capture_output=True,
                            text=True, check=False)
    return result.returncode == 0, result.stdout.strip().splitlines()[-1].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build tree with the tools in bin/")
    parser.add_argument("folder", help="folder of model folders, from quantise_digits.py")
    arguments = parser.parse_args()
    failures = 0
    names = sorted(os.listdir(arguments.folder))
    if not names:
        sys.exit(f"no models in {arguments.folder}")
    for name in names:
        folder = os.path.join(arguments.folder, name)
        model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "test_data_set_0")
        report = json.loads(tool(arguments.build, "hpu-verify", model, "--data", data, "--target", "gaudi2", "--rtol", "0",
                                 "--atol", "0.01", "--labels", os.path.join(folder, "labels.pb"), "--json"))
        rows = onnx_io.load_data_set(data, "output")[0].shape[0]
        output = report["outputs"][0]
        good = report["passed"] and report["same_answers"] >= 0.99 * rows
        print(f"{name}: {'passed' if good else 'WRONG'}, max_abs {output['max_abs']:.3g}, "
              f"{report['same_answers']} of {rows} answers the same, accuracy {report['accuracy']:.4f}")
        failures += not good
        # All weights lie in the recipe as floats; i8 operands would be cast by kernels at run time.
        ir = tool(arguments.build, "hpu-compile", model, "--target", "gaudi2", "--stop-after=normalize", "--quiet")
        if any("hpu.constant" in line and "xi8>" in line for line in ir.splitlines()):
            failures += 1
            print(f"{name}: WRONG, a weight is dequantised at run time")
        out = os.path.join(folder, "ours")
        tool(arguments.build, "hpu-run", model, "--data", data, "--target", "gaudi2", "--output", out, "--iters", "1",
             "--warmup", "0", "--quiet")
        verdict = ort_verdict(model, data, [("logits", np.load(os.path.join(out, "output_0.npy")))],
                              os.path.join(folder, "for_ort"))
        print(f"{name}: onnxruntime: {'not installed' if verdict is None else verdict[1]}")
        failures += verdict is not None and not verdict[0]
    sys.exit(2 if failures else 0)


if __name__ == "__main__":
    main()
