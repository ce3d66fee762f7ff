#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan against ONNX Runtime. Exit codes: 0 ok, 1 a difference or a failure, 77 ONNX Runtime is not there."""
import argparse
import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from microsoft_ops import ROOT, TYPES, check

RNG = np.random.default_rng(11)
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes, inputs, outputs, constants=()):
    return helper.make_graph(nodes, "body", inputs, outputs, [numpy_helper.from_array(v, n) for n, v in constants])


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def branch(op, name, *operands):
    return body([node(op, list(operands), [name])], [], [info(name)])


def count_down(collect=True):
    """v = v * 0.5 + x until its sum is less than a limit; collects v."""
    nodes = [node("Mul", ["v", "half"], ["h"]), node("Add", ["h", "x"], ["v2"]),
             node("ReduceSum", ["v2"], ["s"], keepdims=0), node("Greater", ["s", "limit"], ["goes_on"])]
    outputs = [info("goes_on", B, []), info("v2")]
    if collect:
        nodes.append(node("Identity", ["v2"], ["row"]))
        outputs.append(info("row", F, [3, 4]))
    return body(nodes, [info("i", I, []), info("c", B, []), info("v")], outputs, [("half", np.float32(0.5))])


def cases():
    """(name, nodes, inputs, outputs by name, constants)"""
    x, y = noise(3, 4), noise(3, 4)
    for taken in (False, True):
        flag = np.array(taken)
        yield (f"If, {taken}", [node("If", ["f"], ["y"], then_branch=branch("Exp", "t", "x"), else_branch=branch("Neg", "e", "x"))],
               {"f": flag, "x": x}, {"y": F}, {})
        yield (f"If of computed data, {taken}",
               [node("ReduceSum", ["x"], ["s"], keepdims=1), node("Reshape", ["s", "one"], ["s1"]), node("Greater", ["s1", "z"], ["f"]),
                node("If", ["f"], ["y"], then_branch=branch("Exp", "t", "x"), else_branch=branch("Identity", "e", "w"))],
               {"x": np.abs(x) * (1 if taken else -1), "w": y}, {"y": F}, {"z": np.zeros(1, np.float32), "one": np.array([1])})
        yield (f"If in an If, {taken}",
               [node("If", ["f"], ["y"], then_branch=body(
                   [node("If", ["g"], ["n"], then_branch=branch("Exp", "t", "x"), else_branch=branch("Neg", "e", "x"))], [], [info("n")]),
                   else_branch=branch("Abs", "a", "x"))], {"f": flag, "g": ~flag, "x": x}, {"y": F}, {})
        yield (f"If, two results, one of both branches alike, {taken}",
               [node("If", ["f"], ["y", "z"],
                     then_branch=body([node("Identity", ["x"], ["t"]), node("Shape", ["x"], ["u"])], [], [info("t"), info("u", I)]),
                     else_branch=body([node("Neg", ["x"], ["e"]), node("Shape", ["x"], ["v"])], [], [info("e"), info("v", I)]))],
               {"f": flag, "x": x}, {"y": F, "z": I}, {})
    for trips in (0, 1, 5):
        grow = body([node("Add", ["v", "x"], ["v2"]), node("Cast", ["i"], ["fi"], to=F), node("Mul", ["v2", "fi"], ["row"]),
                     node("Identity", ["c"], ["c2"])],
                    [info("i", I, []), info("c", B, []), info("v", F, [3, 4])],
                    [info("c2", B, []), info("v2", F, [3, 4]), info("row", F, [3, 4])])
        yield (f"Loop, {trips} constant iterations", [node("Loop", ["n", ""], ["y", "rows"], body=grow)], {"x": x}, {"y": F, "rows": F},
               {"n": np.array(trips)}, {"v": y})
    for limit in (-100.0, 1.0, 8.0, 100.0):
        yield (f"Loop, while the sum is more than {limit}", [node("Loop", ["n", ""], ["y", "rows"], body=count_down())],
               {"x": np.abs(x) - 0.4, "limit": np.float32(limit)}, {"y": F, "rows": F}, {"n": np.array(7)}, {"v": 4 * np.abs(y)})
    for start in (False, True):
        yield (f"Loop, a first condition that is {start}", [node("Loop", ["n", "go"], ["y"], body=count_down(False))],
               {"x": x, "limit": np.float32(1), "go": np.array(start)}, {"y": F}, {"n": np.array(3)}, {"v": y})
    for count in (-1, 0, 2, 6, 9):
        yield (f"Loop, {count} times by the device, 6 at most",
               [node("Min", ["m", "six"], ["n0"]), node("Loop", ["n0", ""], ["y"], body=count_down(False))],
               {"x": x, "limit": np.float32(-1e9), "m": np.array(count)}, {"y": F}, {"six": np.array(6)}, {"v": y})
    for name, bound, given in (
            ("ArgMax", [node("ArgMax", ["scores"], ["n0"], axis=0, keepdims=0)], {"scores": np.float32([1, 5, 2, 9, 3])}),
            ("Mod", [node("Mod", ["m", "six"], ["n0"])], {"m": np.array(23)}),
            ("Clip", [node("Clip", ["m", "", "six"], ["n0"])], {"m": np.array(9)}),
            ("a Clip of floats", [node("Clip", ["m", "", "real"], ["r"]), node("Floor", ["r"], ["whole"]), node("Cast", ["whole"], ["n0"], to=I)], {"m": np.float32(4.7)}),
            ("a Max of bounded ones", [node("ArgMax", ["scores"], ["a"], axis=0, keepdims=0), node("Mod", ["m", "six"], ["b"]), node("Max", ["a", "b"], ["n0"])],
             {"m": np.array(8), "scores": np.float32([1, 5, 2, 9, 3])})):
        yield (f"Loop, as often as {name} says", [*bound, node("Loop", ["n0", ""], ["y"], body=count_down(False))],
               {"x": x, "limit": np.float32(-1e9), **given}, {"y": F}, {"six": np.array(6), "real": np.float32(5.5)}, {"v": y})
    append = body([node("Concat", ["v", "x"], ["v2"], axis=0), node("Identity", ["c"], ["c2"])],
                  [info("i", I, []), info("c", B, []), info("v")], [info("c2", B, []), info("v2")])
    yield "Loop, a value that grows", [node("Loop", ["n", ""], ["y"], body=append)], {"x": x}, {"y": F}, {"n": np.array(3)}, {"v": y}
    inner = body([node("Add", ["w", "x"], ["w1"]), node("Cast", ["j"], ["fj"], to=F), node("Mul", ["w1", "fj"], ["w2"]),
                  node("Identity", ["d"], ["d2"])], [info("j", I, []), info("d", B, []), info("w")], [info("d2", B, []), info("w2")])
    outer = body([node("Loop", ["two", "", "v"], ["v2"], body=inner), node("Identity", ["c"], ["c2"]), node("Identity", ["v2"], ["row"])],
                 [info("i", I, []), info("c", B, []), info("v")], [info("c2", B, []), info("v2"), info("row")])
    yield ("Loop in a Loop", [node("Loop", ["n", ""], ["y", "rows"], body=outer)], {"x": x}, {"y": F, "rows": F},
           {"n": np.array(3), "two": np.array(2)}, {"v": y})
    same = body([node("Mul", ["v", "k"], ["v2"]), node("Identity", ["c"], ["c2"])], [info("i", I, []), info("c", B, []), info("v")],
                [info("c2", B, []), info("v2")], [("k", np.float32(3))])
    both = body([node("Loop", ["two", "", "v"], ["w"], body=same), node("Cast", ["i"], ["fi"], to=F), node("Mul", ["fi", "k"], ["f"]),
                 node("Add", ["w", "f"], ["v3"]), node("Identity", ["c"], ["c3"])],
                [info("i", I, []), info("c", B, []), info("v")], [info("c3", B, []), info("v3")])
    yield ("Loop in a Loop of the same names, and an initialiser of a name around it",
           [node("Loop", ["n", ""], ["o"], body=both), node("Mul", ["o", "k"], ["y"])], {"x": x}, {"y": F},
           {"n": np.array(3), "two": np.array(2), "k": np.float32(10)}, {"v": y})
    rnn = body([node("Add", ["h", "xt"], ["a"]), node("Tanh", ["a"], ["h2"]), node("Identity", ["h2"], ["row"])],
               [info("h", F, [4]), info("xt", F, [4])], [info("h2", F, [4]), info("row", F, [4])])
    seq = noise(6, 4)
    yield "Scan", [node("Scan", ["h0", "x"], ["h", "rows"], body=rnn, num_scan_inputs=1)], {"h0": noise(4), "x": seq}, {"h": F, "rows": F}, {}
    yield ("Scan, backwards", [node("Scan", ["h0", "x"], ["h", "rows"], body=rnn, num_scan_inputs=1, scan_input_directions=[1],
                                    scan_output_directions=[1])], {"h0": noise(4), "x": seq}, {"h": F, "rows": F}, {})
    yield ("Scan, other axes", [node("Scan", ["h0", "x"], ["h", "rows"], body=rnn, num_scan_inputs=1, scan_input_axes=[-1],
                                     scan_output_axes=[1])], {"h0": noise(4), "x": np.ascontiguousarray(seq.T)}, {"h": F, "rows": F}, {})
    two = body([node("MatMul", ["h", "a"], ["h1"]), node("Add", ["h1", "b"], ["h2"]), node("ReduceMax", ["h2"], ["m"], keepdims=0)],
               [info("h", F, [2, 3]), info("a", F, [3, 3]), info("b", F, [3])], [info("h2", F, [2, 3]), info("m", F, [])])
    yield ("Scan, two operands", [node("Scan", ["h0", "a", "b"], ["h", "m"], body=two, num_scan_inputs=2, scan_input_directions=[0, 1])],
           {"h0": noise(2, 3), "a": noise(5, 3, 3), "b": noise(5, 3)}, {"h": F, "m": F}, {})


def model_of(nodes, inputs, outputs, constants, carried=None):
    # What a Loop carries are its last operands.
    for name in carried or {}:
        for each in nodes:
            if each.op_type == "Loop":
                each.input.append(name + "0")
    given = {**inputs, **{name + "0": value for name, value in (carried or {}).items()}}
    types = {**TYPES, "bool": B}
    graph = helper.make_graph(nodes, "graph", [info(n, types[str(np.asarray(v).dtype)], np.shape(v)) for n, v in given.items()],
                              [info(n, kind) for n, kind in outputs.items()],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {n: np.asarray(v) for n, v in given.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    args = parser.parse_args()
    if not os.path.isdir(os.path.join(ROOT, "benchmarks", "ort", "node_modules", "onnxruntime-node")):
        print("ONNX Runtime is not there: cd benchmarks/ort && npm ci --ignore-scripts")
        return 77
    count = failed = 0
    for name, nodes, inputs, outputs, constants, *carried in cases():
        with tempfile.TemporaryDirectory(prefix="hpu-control-flow-") as folder:
            wrong = check(folder, args.build, list(outputs), *model_of(nodes, inputs, outputs, constants, *carried))
        count += 1
        if wrong:
            failed += 1
            print(f"FAIL  {name}: {wrong}")
    print(f"{count} models, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
