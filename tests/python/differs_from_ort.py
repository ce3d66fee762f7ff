#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a model gives other results than ONNX Runtime on random inputs: `hpu-reduce MODEL --test 'python3 tests/python/differs_from_ort.py'`
makes a model that does as small as it can be. Free dimensions have the size 2. Exit codes: 0 it differs, 1 it does not, or one of both refuses it, 77 ONNX Runtime is not there."""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx.mapping import TENSOR_TYPE_TO_NP_TYPE

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import microsoft_ops  # pylint: disable=wrong-import-position

DIFFERS = 2  # hpu-verify's exit code for results that do.


def random_inputs(model, seed):
    """By name an array of each input that launches give."""
    rng, constants = np.random.default_rng(seed), {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else 2 for dim in tensor.shape.dim]
        dtype = np.dtype(TENSOR_TYPE_TO_NP_TYPE[tensor.elem_type])
        numbers = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2 if dtype.kind == "b" else 5, shape)
        inputs[value.name] = np.asarray(numbers, dtype)
    return inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(microsoft_ops.ROOT, "build"))
    args = parser.parse_args()
    if not os.path.isdir(os.path.join(microsoft_ops.ROOT, "benchmarks", "ort", "node_modules", "onnxruntime-node")):
        print("ONNX Runtime is not there: cd benchmarks/ort && npm ci --ignore-scripts")
        return 77
    model = onnx.load(args.model)
    with tempfile.TemporaryDirectory(prefix="hpu-differs-") as folder:
        try:
            wrong = microsoft_ops.prepare(folder, [output.name for output in model.graph.output], model, random_inputs(model, args.seed))
        except (KeyError, TypeError, ValueError) as error:
            wrong = str(error)
        if wrong:
            print(f"ONNX Runtime: {wrong}")
            return 1
        command = [os.path.join(args.build, "bin", "hpu-verify"), os.path.join(folder, "model.onnx"), "--data", os.path.join(folder, "data")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    print(result.stdout + result.stderr)
    return 0 if result.returncode == DIFFERS else 1


if __name__ == "__main__":
    sys.exit(main())
