#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan against ONNX Runtime. Exit codes: 0 ok, 1 a difference or a failure, 77 ONNX Runtime is not there."""
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from case_runner import arguments, has_onnx_runtime, run_cases
from microsoft_ops import TYPES, check

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


def device_cases():
    """What the device decides, or too long to be unrolled; as cases()."""
    x, y, w = noise(3, 4), noise(3, 4), 0.4 * noise(4, 4)
    loop_inputs = [info("i", I, []), info("c", B, [])]
    keep = node("Identity", ["c"], ["c2"])
    step = [node("MatMul", ["v", "w"], ["p"]), node("Add", ["p", "x"], ["v2"])]
    v, v2 = info("v", F, [3, 4]), info("v2", F, [3, 4])
    flagged = info("c2", B, [])

    def products(collect=("v2",), more=()):
        rows = [node("Identity", [name], [f"row{k}"]) for k, name in enumerate(collect)]
        return body([*step, keep, *more, *rows], [*loop_inputs, v], [flagged, v2, *(info(f"row{k}") for k in range(len(collect)))])

    counter = body([node("Cast", ["i"], ["fi"], to=F), node("Mul", ["fi", "tiny"], ["t"]), node("Mul", ["v", "shrink"], ["s"]),
                    node("Add", ["s", "t"], ["v2"]), node("ReduceSum", ["v2"], ["row"], keepdims=0), keep],
                   [*loop_inputs, info("v")], [flagged, info("v2"), info("row")],
                   [("tiny", np.float32(1e-4)), ("shrink", np.float32(0.99))])
    yield ("Loop, 3000 constant iterations that say their numbers", [node("Loop", ["n", ""], ["y", "rows"], body=counter)], {}, {"y": F, "rows": F},
           {"n": np.array(3000)}, {"v": y})
    yield ("Loop, 70000 constant iterations", [node("Loop", ["n", ""], ["y"], body=body(list(counter.node), list(counter.input), list(counter.output)[:2], [("tiny", np.float32(1e-4)), ("shrink", np.float32(0.99))]))],
           {}, {"y": F}, {"n": np.array(70000)}, {"v": np.ones(5, np.float32)})
    for count in (-3, 0, 1, 2, 7, 300):
        yield (f"Loop of products, {count} times by the device, without a bound", [node("Loop", ["m", ""], ["y"], body=products(()))],
               {"x": x, "w": w, "m": np.array(count)}, {"y": F}, {}, {"v": y})
    for count in (0, 1, 5, 40):
        yield (f"Loop of products, {count} of 40 rows, of what there was and what came", [
            node("Min", ["m", "most"], ["n"]), node("Loop", ["n", ""], ["y", "after", "before"], body=products(("v2", "v"))),
            node("ReduceSum", ["after"], ["total"], keepdims=0)],
            {"x": x, "w": w, "m": np.array(count)}, {"y": F, "after": F, "before": F, "total": F}, {"most": np.array(40)}, {"v": y})
    while_more = body([*step, node("ReduceSum", ["v2"], ["s"], keepdims=0), node("Greater", ["s", "limit"], ["c2"]), node("Identity", ["s"], ["row"])],
                      [*loop_inputs, v], [flagged, v2, info("row", F, [])])
    for limit in (-1e3, 0.0, 3.0, 1e3):
        yield (f"Loop of products while the sum is more than {limit}, 30 at most", [node("Loop", ["n", ""], ["y", "sums"], body=while_more)],
               {"x": x * 0 - 0.05, "w": np.abs(w) / 4, "limit": np.float32(limit)}, {"y": F, "sums": F}, {"n": np.array(30)}, {"v": 4 * np.abs(y)})
    for go in (False, True):
        yield (f"Loop without a limit, a first condition that is {go}",
               [node("Loop", ["", "go"], ["y"], body=body(list(while_more.node)[:4], list(while_more.input), list(while_more.output)[:2]))],
               {"x": x * 0 - 0.05, "w": np.abs(w) / 4, "limit": np.float32(1), "go": np.array(go)}, {"y": F}, {}, {"v": 4 * np.abs(y)})
    below = body([*step, node("Add", ["k", "one"], ["k2"]), node("Less", ["k2", "last"], ["c2"]), node("Identity", ["k2"], ["row"])],
                 [*loop_inputs, v, info("k", I, [])], [flagged, v2, info("k2", I, []), info("row", I, [])], [("one", np.array(1)), ("last", np.array(1500))])
    yield ("Loop that counts to 1500 by itself", [node("Constant", [], ["k0"], value=numpy_helper.from_array(np.array(0))),
                                                  node("Loop", ["", "", "v0", "k0"], ["y", "k", "rows"], body=below)],
           {"x": x, "w": w, "v0": y}, {"y": F, "k": I, "rows": I}, {})
    swaps = body([*step, keep, node("Identity", ["v2"], ["a"]), node("Identity", ["u"], ["b"]), node("Identity", ["z"], ["z2"]), node("Add", ["u", "z"], ["row"])],
                 [*loop_inputs, v, info("u", F, [3, 4]), info("z", F, [3, 4])],
                 [flagged, info("b", F, [3, 4]), info("a", F, [3, 4]), info("z2", F, [3, 4]), info("row", F, [3, 4])])
    for count in (0, 1, 4, 5):
        yield (f"Loop of values that change places {count} times, and one that does not change", [node("Loop", ["m", "", "v0", "v0", "v0"], ["y", "u", "z"], body=body(list(swaps.node)[:-1], list(swaps.input), list(swaps.output)[:4])),
               node("Add", ["y", "u"], ["more"])], {"x": x, "w": w, "m": np.array(count), "v0": y}, {"y": F, "u": F, "z": F, "more": F}, {})
    second = body([node("MatMul", ["v", "w"], ["p"]), node("Gather", ["rows", "i"], ["r"]), node("Add", ["p", "r"], ["v2"]), keep], [*loop_inputs, v], [flagged, v2])
    for count in (3, 6):
        yield (f"Loop behind a Loop, {count} times", [node("Loop", ["n", ""], ["a", "rows"], body=products()), node("Mul", ["a", "a"], ["b"]),
               node("Loop", ["m", "", "b"], ["y"], body=second), node("Sub", ["y", "a"], ["z"])],
               {"x": x, "w": w, "m": np.array(count)}, {"y": F, "z": F, "rows": F}, {"n": np.array(6)}, {"v": y})
    inner = body([node("MatMul", ["u", "w"], ["p"]), node("Add", ["p", "v"], ["u2"]), node("Identity", ["d"], ["d2"])],
                 [info("j", I, []), info("d", B, []), info("u", F, [3, 4])], [info("d2", B, []), info("u2", F, [3, 4])])
    outer = body([node("Add", ["i", "one"], ["t"]), node("Loop", ["t", "", "v"], ["q"], body=inner), node("Tanh", ["q"], ["v2"]), keep, node("Identity", ["v2"], ["row"])],
                 [*loop_inputs, v], [flagged, v2, info("row", F, [3, 4])], [("one", np.array(1))])
    for count in (1, 4):
        yield (f"Loop in a Loop, each as often as the outer has run, {count} times", [node("Loop", ["m", "", "v0"], ["y"], body=body(list(outer.node)[:-1], list(outer.input), list(outer.output)[:2], [("one", np.array(1))]))],
               {"w": w, "m": np.array(count), "v0": y}, {"y": F}, {})
    then = body([node("MatMul", ["x", "w"], ["t"])], [], [info("t")])
    other = body([node("MatMul", ["y0", "w"], ["e0"]), node("Relu", ["e0"], ["e"])], [], [info("e")])
    for flag in (False, True):
        yield (f"If of products, {flag}", [node("If", ["f"], ["a"], then_branch=then, else_branch=other), node("Add", ["a", "x"], ["y"])],
               {"x": x, "y0": y, "w": w, "f": np.array(flag)}, {"a": F, "y": F}, {})
        nested = body([node("If", ["g"], ["n"], then_branch=then, else_branch=other)], [], [info("n")])
        yield (f"If of products in an If, {flag}", [node("If", ["f"], ["y"], then_branch=nested, else_branch=body([node("MatMul", ["y0", "w"], ["o"])], [], [info("o")]))],
               {"x": x, "y0": y, "w": w, "f": np.array(flag), "g": np.array(not flag)}, {"y": F}, {})
        chosen = body([node("Mod", ["i", "two"], ["odd"]), node("Cast", ["odd"], ["is_odd"], to=B), node("If", ["is_odd"], ["v2"], then_branch=body([node("MatMul", ["v", "w"], ["t"])], [], [info("t")]),
                       else_branch=body([node("Add", ["v", "x"], ["e"])], [], [info("e")])), keep], [*loop_inputs, v], [flagged, v2], [("two", np.array(2))])
        yield (f"If of products in a Loop, {5 + flag} times", [node("Loop", ["m", ""], ["y"], body=chosen)], {"x": x, "w": w, "m": np.array(5 + flag)}, {"y": F}, {}, {"v": y})
    rnn = body([node("MatMul", ["h", "w"], ["p"]), node("Add", ["p", "xt"], ["a"]), node("Tanh", ["a"], ["h2"]), node("Identity", ["h2"], ["row"]), node("Identity", ["h"], ["old"])],
               [info("h", F, [2, 4]), info("xt", F, [2, 4])], [info("h2", F, [2, 4]), info("row", F, [2, 4]), info("old", F, [2, 4])])
    for direction in (0, 1):
        yield (f"Scan of 500 steps, direction {direction}", [node("Scan", ["h0", "x"], ["h", "rows", "old"], body=rnn, num_scan_inputs=1, scan_input_directions=[direction],
                                                                     scan_output_directions=[direction, 1 - direction])],
               {"h0": noise(2, 4), "x": noise(500, 2, 4), "w": w}, {"h": F, "rows": F, "old": F}, {})
    yield ("Scan of 500 steps, other axes", [node("Scan", ["h0", "x"], ["h", "rows", "old"], body=rnn, num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1, -1])],
           {"h0": noise(2, 4), "x": noise(2, 4, 500), "w": w}, {"h": F, "rows": F, "old": F}, {})
    exact = body([node("Mul", ["v", "three"], ["v1"]), node("Add", ["v1", "i"], ["v2"]), node("Not", ["b"], ["b2"]), keep, node("Identity", ["v2"], ["row"])],
                 [*loop_inputs, info("v", I, [3]), info("b", B, [2])], [flagged, info("v2", I, [3]), info("b2", B, [2]), info("row", I, [3])], [("three", np.array(3))])
    for count in (1, 24):
        yield (f"Loop of integers and flags, {count} times", [node("Min", ["m", "most"], ["n"]), node("Loop", ["n", "", "v0", "b0"], ["y", "b", "rows"], body=exact)],
               {"m": np.array(count), "v0": np.array([1, -2, 2**10]), "b0": np.array([True, False])}, {"y": I, "b": B, "rows": I}, {"most": np.array(64)})
    picks = body([*step, node("ArgMax", ["v2"], ["at"], axis=1, keepdims=0), keep], [*loop_inputs, v], [flagged, v2, info("at", I, [3])])
    for count in (2, 9):
        yield (f"Loop whose {count} rows of indices are read", [node("Min", ["m", "most"], ["n"]), node("Loop", ["n", "", "v0"], ["y", "at"], body=picks), node("Gather", ["table", "at"], ["z"])],
               {"x": x, "w": w, "m": np.array(count), "v0": y, "table": noise(4, 2)}, {"y": F, "at": I, "z": F}, {"most": np.array(9)})


def model_of(nodes, inputs, outputs, constants, carried=None):
    # What a Loop carries are its last operands.
    for name in carried or {}:
        for each in nodes:
            if each.op_type == "Loop" and len(each.input) == 2:
                each.input.append(name + "0")
    given = {**inputs, **{name + "0": value for name, value in (carried or {}).items()}}
    types = {**TYPES, "bool": B}
    graph = helper.make_graph(nodes, "graph", [info(n, types[str(np.asarray(v).dtype)], np.shape(v)) for n, v in given.items()],
                              [info(n, kind) for n, kind in outputs.items()],
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {n: np.asarray(v) for n, v in given.items()}


def both_limits():
    """Each case as it is, and with all on the device that can be there."""
    for name, *case in [*cases(), *device_cases()]:
        for limit in (1024, 0):
            yield (f"{name}, --unroll-limit {limit}", limit, *case)


def check_case(build, limit, nodes, inputs, outputs, constants, *carried):
    with tempfile.TemporaryDirectory(prefix="hpu-control-flow-") as folder:
        return check(folder, build, list(outputs), *model_of(nodes, inputs, outputs, constants, *carried), ["--unroll-limit", str(limit)])


def main():
    args = arguments(__doc__, runs_tools=True)
    return run_cases(args, both_limits(), lambda *case: check_case(args.build, *case)) if has_onnx_runtime() else 77


if __name__ == "__main__":
    sys.exit(main())
