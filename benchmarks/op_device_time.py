#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Modelled device time of ops that move or order data, over what HBM allows, and of recurrences, over their products.

    benchmarks/op_device_time.py --build build --target gaudi2 [--output FILE] [--gate]

TopK, sorts, NonMaxSuppression and scatters: the bound is what they read and write at the HBM's bandwidth, plus the device's
time of an op that does nothing (a copy of one element), which is no matter of the op. A recurrence: the device time of
its products alone, one after the other, is that of the same model without its elementwise part: a chain of MatMuls of the
same sizes, each of which reads the result of the one before. The times are the model's, the same in every run. --gate
fails above the factors that a release has (LIMITS), or above what is written in KNOWN for the cases that do not reach them.
Exit codes: 0 ok, 1 a wrong call, 2 a ratio is above its limit, 3 a program failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIMITS = {"move": 2.0, "recurrence": 1.3}
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
# Bytes a nanosecond (hpu-compile --list-targets).
BANDWIDTH = {"gaudi1": 1000.0, "gaudi2": 2450.0, "gaudi3": 3700.0}


def model(nodes, inputs, outputs, constants=(), opset=17):
    """inputs: {name: (type, shape)}; outputs: {name: type}; constants: {name: array}."""
    graph = helper.make_graph(
        nodes, "op", [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def top_k(rows, columns, k):
    made = model([helper.make_node("TopK", ["x", "k"], ["values", "indices"])], {"x": (F32, (rows, columns))},
                 {"values": F32, "indices": I64}, {"k": np.array([k], np.int64)})
    return made, 4 * rows * columns + 12 * rows * k


def scatter(rows, width, count, reduction):
    """Rows of `updates` into rows of a table, which is not changed in place: it is read and written as a whole."""
    made = model([helper.make_node("ScatterND", ["table", "at", "updates"], ["y"], reduction=reduction)],
                 {"table": (F32, (rows, width)), "at": (I64, (count, 1)), "updates": (F32, (count, width))}, {"y": F32})
    return made, 4 * (2 * rows * width + count * width) + 8 * count


def scatter_elements(rows, width, count, reduction):
    made = model([helper.make_node("ScatterElements", ["table", "at", "updates"], ["y"], axis=0, reduction=reduction)],
                 {"table": (F32, (rows, width)), "at": (I64, (count, width)), "updates": (F32, (count, width))}, {"y": F32})
    return made, 4 * (2 * rows * width + count * width) + 8 * count * width


def suppression(boxes, classes, most):
    constants = {"most": np.array([most], np.int64), "overlap": np.array([0.5], np.float32), "least": np.array([0.05], np.float32)}
    made = model([helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"])],
                 {"boxes": (F32, (1, boxes, 4)), "scores": (F32, (1, classes, boxes))}, {"kept": I64}, constants)
    return made, 4 * boxes * (4 + classes) + 24 * classes * min(most, boxes)


def nothing():
    return model([helper.make_node("Neg", ["x"], ["y"])], {"x": (F32, (1,))}, {"y": F32}), 8


def recurrence(kind, length, batch, width, hidden, **attributes):
    """(model, the products of it): the input's product for all steps at once, then those of each step with the state. A GRU
    that resets ahead of its product, ONNX's default, has two a step, since the reset is a result of the first one."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    of_step = [2, 1] if kind == "GRU" and not attributes.get("linear_before_reset") else [gates]
    random = np.random.default_rng(0)
    def weights(*shape):
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    w, r = weights(1, gates * hidden, width), weights(1, gates * hidden, hidden)
    made = model([helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden, **attributes)],
                 {"x": (F32, (length, batch, width))}, {"y": F32}, {"w": w, "r": r})
    constants = {"w": w[0].T.copy(), "from": np.array([0], np.int64), "to": np.array([hidden], np.int64), "axis": np.array([1], np.int64)}
    first = 0
    for i, count in enumerate(of_step):
        constants[f"r{i}"] = r[0, first * hidden:(first + count) * hidden].T.copy()
        first += count
    nodes = [helper.make_node("MatMul", ["x", "w"], ["all"])]
    state = "start"
    for step in range(length):
        for i, count in enumerate(of_step):
            product = f"product{step}_{i}"
            nodes.append(helper.make_node("MatMul", [state, f"r{i}"], [product]))
            state = f"state{step}_{i}" if count > 1 else product
            if count > 1:
                nodes.append(helper.make_node("Slice", [product, "from", "to", "axis"], [state]))
    products = model(nodes, {"x": (F32, (length, batch, width)), "start": (F32, (batch, hidden))}, {"all": F32, state: F32}, constants)
    return made, products


CASES = {
    "top_k 64x4096 k=8": ("move", lambda: top_k(64, 4096, 8)),
    "top_k 1024x1024 k=64": ("move", lambda: top_k(1024, 1024, 64)),
    "top_k 1x1000000 k=100": ("move", lambda: top_k(1, 1000000, 100)),
    "sort 1024x1024": ("move", lambda: top_k(1024, 1024, 1024)),
    "sort 16x65536": ("move", lambda: top_k(16, 65536, 65536)),
    "scatter_nd 100000x64": ("move", lambda: scatter(100000, 64, 20000, "none")),
    "scatter_nd add 100000x64": ("move", lambda: scatter(100000, 64, 20000, "add")),
    "scatter_elements add 20000x64": ("move", lambda: scatter_elements(20000, 64, 100000, "add")),
    "suppression 1x1000": ("move", lambda: suppression(1000, 1, 100)),
    "suppression 20x1000": ("move", lambda: suppression(1000, 20, 100)),
    "lstm 64x32 256": ("recurrence", lambda: recurrence("LSTM", 64, 32, 256, 256)),
    "lstm 32x128 1024": ("recurrence", lambda: recurrence("LSTM", 32, 128, 1024, 1024)),
    "gru 64x32 256": ("recurrence", lambda: recurrence("GRU", 64, 32, 256, 256)),
    "gru, reset behind 64x32 256": ("recurrence", lambda: recurrence("GRU", 64, 32, 256, 256, linear_before_reset=1)),
}

# What does not reach its limit yet, and the most that it may take (the ratio that it has, and a few percent).
# While HBM brings a register of 64 elements, its TPC issues five vector instructions. The first of many need a network
# over what the first of groups leave, a sort one over all: 55 stages of 3.5 or 8 instructions for 1024 elements. A
# suppression is as many passes over the boxes as may be chosen, of one TPC a class; HBM brings them in no time. A scatter
# of elements takes four accesses of the scalar unit for each (docs/performance-model.md, "Orders, boxes and scatters"). A
# step of a small recurrence is a product of 1.7 us and a kernel whose start alone takes 0.33 us (two of them in a GRU that
# resets ahead of its product), and each waits for the other.
KNOWN = {
    "top_k 64x4096 k=8": 2.3, "top_k 1024x1024 k=64": 21, "top_k 1x1000000 k=100": 7.6, "sort 1024x1024": 18, "sort 16x65536": 68,
    "scatter_elements add 20000x64": 18, "suppression 1x1000": 125, "suppression 20x1000": 116,
    "lstm 64x32 256": 1.45, "gru 64x32 256": 1.55, "gru, reset behind 64x32 256": 1.4,
}


def device_time(args, made, folder):
    """Microseconds of the model on the target."""
    path = os.path.join(folder, "op.onnx")
    onnx.save(made, path)
    command = [os.path.join(args.build, "bin", "hpu-compile"), path, "-o", os.path.join(folder, "op.recipe"), "--target", args.target,
               "--json", "-q"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=args.timeout)
    if result.returncode != 0:
        raise RuntimeError(f"hpu-compile: exit code {result.returncode}: {result.stderr.strip()[-300:]}")
    return json.loads(result.stdout)["device_time_us"]


def measure(args, name, folder, idle):
    kind, make = CASES[name]
    made, other = make()
    time = device_time(args, made, folder)
    bound = device_time(args, other, folder) if kind == "recurrence" else other / BANDWIDTH[args.target] / 1000 + idle
    return {"name": name, "kind": kind, "device_us": time, "bound_us": bound, "ratio": time / bound}


def allowed(row):
    return max(LIMITS[row["kind"]], KNOWN.get(row["name"], 0))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="default: all", metavar="CASE")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(__file__), "..", "build"))
    parser.add_argument("--target", choices=tuple(BANDWIDTH), default="gaudi2")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one compilation")
    parser.add_argument("--output", metavar="FILE", help="write the rows as JSON, too")
    parser.add_argument("--gate", action="store_true", help="fail where a ratio is above what it may be")
    args = parser.parse_args(argv)
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        print(f"error: no case '{unknown[0]}'; there are {', '.join(CASES)}", file=sys.stderr)
        return 1
    rows = []
    with tempfile.TemporaryDirectory(prefix="hpu-op-device-time-") as folder:
        try:
            idle = device_time(args, nothing()[0], folder)
            for name in args.cases or CASES:
                rows.append(measure(args, name, folder, idle))
                row = rows[-1]
                print(f"{name:32} {row['device_us']:12.1f} us {row['bound_us']:10.2f} us {row['ratio']:10.2f} x"
                      f"{'  above ' + format(allowed(row), 'g') if row['ratio'] > allowed(row) else ''}", flush=True)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"error: {error}", file=sys.stderr)
            return 3
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"target": args.target, "rows": rows}, file, indent=1)
            file.write("\n")
    return 2 if args.gate and any(row["ratio"] > allowed(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
