#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes models that ask for more than is reasonable, gives each to hpu-compile, and judges time and memory.

The aim is 2 s of CPU time and 1 GB for each on an idle machine, whether the model is refused or compiled; both are printed.
CPU time of slow machines is unknown: the test fails above --cpu (and the limit of the process is a little above that), and
above 1 GB. A refusal is exit code 1 with an error that mentions what the table says, in at most 64 KiB. Exit codes: 0 ok, 1
user error, 2 too slow, too large or badly explained, 3 a crash.
"""

import os
import re
import resource
import sys
import tempfile

from onnx import TensorProto as T
from onnx import helper

import script_arguments

AIM_SECONDS, MOST_BYTES, MOST_TEXT = 2, 1 << 30, 64 << 10
LONG = "n" * 1_000_000


def value(name, shape, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=attributes.pop("name", outputs[0]), **attributes)


def ints(name, values):
    return helper.make_tensor(name, T.INT64, [len(values)], values)


def floats(name, shape, number=1.0):
    count = 1
    for size in shape:
        count *= size
    return helper.make_tensor(name, T.FLOAT, shape, [number] * count)


def model(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "hostile", inputs, outputs, list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made.SerializeToString()


def chain(count, step, shape=(4, 64), initializers=()):
    """`step(i, x, y)` is a list of nodes that make y of x."""
    nodes, x = [], "x"
    for i in range(count):
        nodes += step(i, x, f"v{i}")
        x = f"v{i}"
    return model(nodes, [value("x", shape)], [value(x, None)], initializers)


UNARY = ("Sigmoid", "Tanh", "Exp", "Abs", "Sin", "Sqrt")


def one(op, inputs, shapes, initializers=(), kind=T.FLOAT, **attributes):
    """A model of one node; `shapes` are those of the inputs that are no initializers."""
    opset = attributes.pop("opset", 17)
    given = [name for name in inputs if name and name not in {i.name for i in initializers}]
    return model([node(op, inputs, ["y"], **attributes)],
                 [value(name, shape, kind) for name, shape in zip(given, shapes)], [value("y", None)],
                 initializers, opset)


def claimed(dims):
    """A weight that declares `dims` and holds nothing."""
    tensor = T()
    tensor.name, tensor.data_type = "c", T.FLOAT
    tensor.dims.extend(dims)
    tensor.raw_data = b""
    return one("Add", ["x", "c"], [[1]], [tensor])


def nested(depth):
    graph = helper.make_graph([node("Tanh", ["x"], ["o0"])], "g", [], [value("o0", None)])
    for level in range(depth):
        other = helper.make_graph([node("Sin", ["x"], [f"e{level}"])], "e", [], [value(f"e{level}", None)])
        graph = helper.make_graph([node("If", ["c"], [f"o{level + 1}"], then_branch=graph, else_branch=other)],
                                  "g", [], [value(f"o{level + 1}", None)])
    return model(list(graph.node), [value("x", [4])], [value(f"o{depth}", [4])],
                 [helper.make_tensor("c", T.BOOL, [], [True])])


def field(number, data):
    """A length-delimited field of protobuf."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    return varint(number << 3 | 2) + varint(len(data)) + data


def nested_by_hand(depth):
    """Nested deeper than protobuf itself writes."""
    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(1, b"c") + field(2, b"o") + field(4, b"If") + field(5, attribute))
    return b"\x08\x08" + field(8, b"\x10\x11") + field(7, graph)


def conv(shape, weights, op="Conv", **attributes):
    attributes.setdefault("pads", [1] * 4)
    return model([node(op, ["x", "w"], ["a"], **attributes), node("Relu", ["a"], ["y"])],
                 [value("x", shape), value("w", weights)], [value("y", None)])


def many_inputs(op, count, **attributes):
    return model([node(op, [f"x{i}" for i in range(count)], ["y"], **attributes)],
                 [value(f"x{i}", [64]) for i in range(count)], [value("y", None)])


def polynomial(steps):
    """Products of sums of free dimensions."""
    nodes = [node("Shape", ["x"], ["s"])] + [node("Gather", ["s", f"g{i}"], [f"d{i}"]) for i in range(8)]
    nodes += [node("Add", ["d0", "d1"], ["a0"])]
    nodes += [node("Add", [f"a{i}", f"d{(i + 2) % 8}"], [f"a{i + 1}"]) for i in range(8)]
    nodes += [node("Mul", ["a8", "a7"], ["m0"])]
    nodes += [node("Mul", [f"m{i}", "a8"], [f"m{i + 1}"]) for i in range(steps)]
    nodes += [node("Unsqueeze", [f"m{steps}", "axis"], ["shape"]), node("Expand", ["z", "shape"], ["y"])]
    return model(nodes, [value("x", list("abcdefgh")), value("z", [1])], [value("y", None)],
                 [helper.make_tensor(f"g{i}", T.INT64, [], [i]) for i in range(8)] + [ints("axis", [0])])


def constants(op, count, shape, binary=False, **attributes):
    """A chain of ops on a constant that the importer makes."""
    def inputs(i):
        at = "c" if i == 0 else f"m{i - 1}"
        return [at, "c"] if binary else [at]
    return model([node("ConstantOfShape", ["s"], ["c"])]
                 + [node(op, inputs(i), [f"m{i}"], **attributes) for i in range(count)]
                 + [node("Add", ["x", f"m{count - 1}"], ["y"])],
                 [value("x", [1])], [value("y", None)], [ints("s", shape)])


def joined(count):
    """Each step joins the results of all before it, and keeps 64 elements of that."""
    nodes = [node("Sigmoid", ["x"], ["s0"])]
    for i in range(count):
        nodes += [node("Concat", [f"s{j}" for j in range(i + 1)], [f"c{i}"], axis=0),
                  node("Slice", [f"c{i}", "begin", "end"], [f"t{i}"]), node("Sigmoid", [f"t{i}"], [f"s{i + 1}"])]
    return model(nodes, [value("x", [64])], [value(f"s{count}", None)], [ints("begin", [0]), ints("end", [64])])


def transposed_sigmoid(_, x, y):
    return [node("Transpose", [x], [y + "t"], perm=[1, 0]), node("Sigmoid", [y + "t"], [y])]


# By name: what makes it, and what the error mentions; None: it compiles; "": either.
CASES = {
    # Depth.
    "1000 functions in a chain": (lambda: chain(1000, lambda i, x, y: [node(UNARY[i % 6], [x], [y])]), None),
    "100000 functions in a chain": (lambda: chain(100000, lambda i, x, y: [node(UNARY[i % 6], [x], [y])]),
                                    "8192 operations"),
    "1000 softmaxes in a chain": (lambda: chain(1000, lambda i, x, y: [node("Softmax", [x], [y])]), None),
    "1000 products in a chain": (lambda: chain(1000, lambda i, x, y: [node("MatMul", [x, "w"], [y])],
                                               initializers=[floats("w", [64, 64])]), None),
    "1000 convolutions in a chain": (
        lambda: chain(1000, lambda i, x, y: [node("Conv", [x, "w"], [y + "c"], pads=[1] * 4),
                                             node("Relu", [y + "c"], [y])],
                      shape=(1, 8, 8, 8), initializers=[floats("w", [8, 8, 3, 3], 0.1)]), None),
    "1000 transposes in a chain": (lambda: chain(1000, transposed_sigmoid), None),
    "4000 sums in a chain": (lambda: chain(4000, lambda i, x, y: [node("Add", [x, "x"], [y])]), None),
    "4000 means in a chain": (
        lambda: chain(2000, lambda i, x, y: [node("ReduceMean", [x], [y + "m"], axes=[1], keepdims=1),
                                             node("Sub", [x, y + "m"], [y])]), None),
    "8000 softmaxes in a chain": (lambda: chain(8000, lambda i, x, y: [node("Softmax", [x], [y])]), None),
    "8000 products in a chain": (lambda: chain(8000, lambda i, x, y: [node("MatMul", [x, "w"], [y])],
                                               initializers=[floats("w", [64, 64])]), None),
    # Each tensor has a size and a kernel of its own, and compiling a kernel takes some milliseconds.
    "500 pads in a chain": (lambda: chain(500, lambda i, x, y: [node("Pad", [x, "p"], [y])], shape=(64,),
                                          initializers=[ints("p", [0, 1])]), None),
    "100000 identities in a chain": (lambda: chain(100000, lambda i, x, y: [node("Identity", [x], [y])]), None),
    "10000 constants in a chain": (
        lambda: model([node("Add", ["c" if i == 0 else f"v{i - 1}", "c"], [f"v{i}"]) for i in range(10000)]
                      + [node("Add", ["x", "v9999"], ["y"])],
                      [value("x", [64])], [value("y", None)], [floats("c", [64])]), None),
    "doubled 60 times": (lambda: chain(60, lambda i, x, y: [node("Concat", [x, x], [y], axis=0)]), "no memory holds"),
    "nested 17 deep": (lambda: nested(17), "nested deeper than 16"),
    "nested 10000 deep": (lambda: nested_by_hand(10000), "not a whole ONNX model|nested"),
    # Width.
    "20000 inputs added": (lambda: many_inputs("Sum", 20000), "inputs is 20000, at most 4096"),
    "20000 inputs concatenated": (lambda: many_inputs("Concat", 20000, axis=0), "inputs is 20000, at most 4096"),
    "4000 inputs concatenated": (lambda: many_inputs("Concat", 4000, axis=0), None),
    "20000 parts of one tensor": (lambda: one("Concat", ["x"] * 20000, [[64]], axis=0), "20000 inputs"),
    "20000 outputs": (lambda: model([node("Identity", ["x"], [f"y{i}"]) for i in range(20000)], [value("x", [64])],
                                    [value(f"y{i}", None) for i in range(20000)]),
                      "outputs is 20000, at most 4096"),
    "4000 outputs": (lambda: model([node("Identity", ["x"], [f"y{i}"]) for i in range(4000)], [value("x", [64])],
                                   [value(f"y{i}", None) for i in range(4000)]), None),
    "each node reads all before it": (
        lambda: model([node("Sum", ["x"] + [f"v{j}" for j in range(i)], [f"v{i}"]) for i in range(300)],
                      [value("x", [64])], [value("v299", None)]), "8192 operations"),
    "each node joins all before it": (lambda: joined(300), "8192 operations"),
    "each of 120 nodes joins all before it": (lambda: joined(120), None),
    # Sizes.
    "convolution of 64 x 8192 x 8192": (lambda: conv([1, 64, 8192, 8192], [64, 64, 3, 3]), None),
    "convolution of 8192 channels": (lambda: conv([1, 8192, 64, 64], [8192, 8192, 3, 3]), None),
    "depthwise convolution of 8192 channels": (lambda: conv([1, 8192, 64, 64], [8192, 1, 3, 3], group=8192), None),
    "transposed convolution to 8192 x 8192": (
        lambda: conv([1, 16, 4096, 4096], [16, 16, 4, 4], "ConvTranspose", strides=[2, 2]), None),
    "convolution with windows of 4001": (lambda: conv([1, 3, 4000, 4000], [8, 3, 4001, 4001], pads=[2000] * 4), None),
    "product of 65536": (lambda: one("MatMul", ["x", "w"], [[65536, 65536], [65536, 65536]]), None),
    "attention of 65536 tokens": (
        lambda: model([node("MatMul", ["q", "k"], ["s"]), node("Softmax", ["s"], ["p"]),
                       node("MatMul", ["p", "v"], ["y"])],
                      [value("q", [16, 65536, 64]), value("k", [16, 64, 65536]), value("v", [16, 65536, 64])],
                      [value("y", None)]), "GiB of HBM"),
    "Hardmax of 10^8": (lambda: one("Hardmax", ["x"], [[10**8]]), None),
    "softmax of 10^8": (lambda: one("Softmax", ["x"], [[10**8]]), None),
    "LRN of 1001 of 10000 channels": (lambda: one("LRN", ["x"], [[1, 10000, 100, 100]], size=1001), None),
    "one-hot of depth 10^9": (lambda: one("OneHot", ["x", "d", "v"], [[4], [2]],
                                          [helper.make_tensor("d", T.INT64, [], [10**9])], T.INT64), "depth"),
    "Tile 10^8 x 10^8": (lambda: one("Tile", ["x", "r"], [[4, 64]], [ints("r", [10**8, 10**8])]), "no memory holds"),
    "Tile 2^62 x 2^62": (lambda: one("Tile", ["x", "r"], [[4, 64]], [ints("r", [2**62, 2**62])]), "2\\^?40|times"),
    "Expand to 10^12": (lambda: one("Expand", ["x", "r"], [[4, 64]], [ints("r", [10**12, 4, 64])]), "no memory holds"),
    "Range to 10^12": (
        lambda: one("Range", ["a", "b", "c"], [[]],
                    [helper.make_tensor("b", T.INT64, [], [10**12]), helper.make_tensor("c", T.INT64, [], [1]),
                     helper.make_tensor("a", T.INT64, [], [0])], T.INT64), "more than 1048576 elements"),
    "Pad by 10^12": (lambda: one("Pad", ["x", "p"], [[4, 64]], [ints("p", [10**12, 0, 0, 10**12])]), "no memory holds"),
    "Resize to 10^8 x 10^8": (lambda: one("Resize", ["x", "", "", "s"], [[1, 1, 4, 64]],
                                          [ints("s", [1, 1, 10**8, 10**8])], mode="linear"), "no memory holds"),
    "Upsample by 10^8": (lambda: one("Upsample", ["x", "s"], [[1, 1, 4, 64]],
                                     [helper.make_tensor("s", T.FLOAT, [4], [1, 1, 1e8, 1e8])], opset=9),
                         "no memory holds"),
    "an input of 2^124": (lambda: one("Tanh", ["x"], [[2**62, 2**62]]), "2\\^40 elements"),
    "an input of -4": (lambda: one("Tanh", ["x"], [[-4]]), "dimension of -4"),
    "an input of a million dimensions": (lambda: one("Tanh", ["x"], [[1] * 1000000]), "1000000 dimensions"),
    "Transpose of a million dimensions": (lambda: one("Transpose", ["x"], [[4]], perm=list(range(1000000))), "1000000"),
    "a weight of 4 GB that is not there": (lambda: claimed([10**9]), "needs 4000000000 bytes"),
    "a weight of 2^124": (lambda: claimed([2**62, 2**62]), "more than memory can hold"),
    "a weight of -4": (lambda: claimed([-4]), "dimension of -4"),
    "strings": (lambda: one("Equal", ["x", "c"], [[2]], [helper.make_tensor("c", T.STRING, [2], [b"a", b"b"])]),
                "STRING"),
    # What the compiler would compute itself.
    "200 products of constants": (lambda: constants("MatMul", 200, [1000, 1000], binary=True), None),
    "softmaxes of constants": (lambda: constants("Softmax", 60, [1000, 1000]), None),
    "LRN of a constant": (lambda: constants("LRN", 1, [1, 10000, 10, 10], size=10001), None),
    "a dimension squared 100 times": (
        lambda: model([node("Shape", ["x"], ["s0"])] + [node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"])
                                                        for i in range(100)]
                      + [node("ConstantOfShape", ["s100"], ["y"])], [value("x", ["n", "m"])], [value("y", None)]),
        "free dimension"),
    "a polynomial of dimensions": (lambda: polynomial(40), "free dimension"),
    # Names.
    "50 unsupported nodes with names of 1 MB": (
        lambda: model([node("Nope", ["x"], [f"y{i}"], name=f"{LONG}{i}") for i in range(50)], [value("x", [4])],
                      [value(f"y{i}", None) for i in range(50)]), "50 nodes are not supported"),
    "20 refused nodes with names of 1 MB": (
        lambda: model([node("Tanh", ["x"], [f"y{i}"], name=f"{LONG}{i}") for i in range(20)], [value("x", [1] * 20)],
                      [value(f"y{i}", None) for i in range(20)]), "dimensions"),
    "a name of 1 MB that nothing defines": (
        lambda: model([node("Sin", [LONG], ["y"])], [], [value("y", None)]), "nothing defines"),
    "a name of 1 MB": (lambda: one("Tanh", ["x"], [[4]], name=LONG), None),
    "a cycle of 10000 nodes": (
        lambda: model([node("Add", ["x", f"v{(i - 1) % 10000}"], [f"v{i}"]) for i in range(10000)], [value("x", [4])],
                      [value("v9999", None)]), "cycle"),
    "10000 nodes of one name and result": (
        lambda: model([node("Sin", ["x"], ["y"]) for _ in range(10000)], [value("x", [4])], [value("y", None)]),
        "defined already"),
    "100000 names that nothing defines": (
        lambda: model([node("Add", [f"a{i}", f"b{i}"], [f"y{i}"]) for i in range(50000)], [value("x", [4])],
                      [value("y0", None)]), "nothing defines"),
}


def run(tool, path, recipe, most_seconds):
    """(exit code or "signal n", CPU seconds, peak bytes, text) of one compilation."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                limit = int(most_seconds) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.execv(tool, [tool, path, "-o", recipe])
            finally:
                os._exit(127)
        _, status, usage = os.wait4(child, 0)
        output.seek(0)
        text = output.read().decode(errors="replace")
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else f"signal {os.WTERMSIG(status)}"
    return code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text


def judge(code, seconds, peak, text, mention, most_seconds):
    problems = []
    if seconds > most_seconds:
        problems.append(f"{seconds:.1f} s of CPU time, at most {most_seconds:g} are allowed")
    elif code not in (0, 1):
        problems.append(f"ended with {code}")
    if peak > MOST_BYTES:
        problems.append(f"{peak / 2**20:.0f} MiB, at most {MOST_BYTES >> 20} are allowed")
    if len(text) > MOST_TEXT:
        problems.append(f"a text of {len(text)} bytes")
    if code == 0 and mention:
        problems.append("was accepted")
    if code == 1 and mention is None:
        problems.append(f"was refused: {text[:300]}")
    if code == 1 and mention and not re.search(mention, text):
        problems.append(f"the error does not mention /{mention}/: {text[:300]}")
    return problems


def parse(argv):
    parser = script_arguments.parser(__doc__)
    parser.add_argument("--cpu", type=float, default=20, help="seconds of CPU time above which a model fails; a busy neighbour on the same core doubles them")
    parser.add_argument("--only", default="", help="a part of the names of the models to run")
    return script_arguments.parse(parser, argv)


def main(argv=None):
    args = parse(argv)
    try:
        tool = script_arguments.tool(args.build, "hpu-compile")
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    failures = crashes = beyond = 0
    for name, (make, mention) in CASES.items():
        if args.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="verify-hostile-") as work:
            path = os.path.join(work, "m.onnx")
            with open(path, "wb") as file:
                file.write(make())
            code, seconds, peak, text = run(tool, path, os.path.join(work, "m.recipe"), args.cpu)
        problems = judge(code, seconds, peak, text, mention, args.cpu)
        failures += bool(problems)
        crashes += code not in (0, 1) and seconds <= args.cpu
        beyond += seconds > AIM_SECONDS
        outcome = {0: "compiled", 1: "refused"}.get(code, str(code))
        print(f"{'FAIL' if problems else 'ok':5} {name:44} {outcome:9} {seconds:6.2f} s {peak / 2**20:6.0f} MiB"
              f"{'  beyond the aim of 2 s' if seconds > AIM_SECONDS else ''}", flush=True)
        for problem in problems:
            print(f"      {problem}")
    print(f"{failures} failed, {beyond} beyond {AIM_SECONDS} s")
    return 3 if crashes else 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
