#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/onnx-coverage.md says of each operator beyond the importer's table: a test that runs it, the types of elements that it compiles with, and the engines that
its commands are for. All of it is found: tests in the folders and lists that run them, types and engines by compiling the operator's cases. Without an option: whether
op_coverage.txt names a test that is there for each operator; --check also compiles and compares, --update writes the file. Exit codes: 0 ok, 1 not, 77 ONNX's tests or a
module are not there."""
import argparse
import collections
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
FILE = os.path.join(HERE, "op_coverage.txt")
DATA = "/usr/share/libonnx-testdata/data"
SUITES = "node", "pytorch-operator", "pytorch-converted", "simple"
SCRIPT, GENERATOR, UNIT = "tests/python/microsoft_ops.py", "tests/random", "tests/unit/compiler/import"
OF_UNITS = {**dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), "RandomNumbersTest.cpp"),
            **dict.fromkeys(("CumProd", "BitCast"), "NewerOpsTest.cpp")}
MOST_CASES = 8  # Of an operator, that are compiled for its engines.

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("numpy or onnx is not there")
    sys.exit(77)

ELEMENTS = {"f32": TensorProto.FLOAT, "bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16, "f64": TensorProto.DOUBLE, "i8": TensorProto.INT8, "u8": TensorProto.UINT8,
            "i16": TensorProto.INT16, "u16": TensorProto.UINT16, "i32": TensorProto.INT32, "u32": TensorProto.UINT32, "i64": TensorProto.INT64, "u64": TensorProto.UINT64,
            "bool": TensorProto.BOOL}

NUMBERS = {np.dtype(name): ELEMENTS[short] for name, short in (
    ("float32", "f32"), ("float16", "f16"), ("float64", "f64"), ("int8", "i8"), ("uint8", "u8"), ("int16", "i16"), ("uint16", "u16"), ("int32", "i32"), ("uint32", "u32"),
    ("int64", "i64"), ("uint64", "u64"), ("bool", "bool"))}


def own_cases():
    """(op, opset, inputs, attributes): operators that ONNX's tests of this age do not have."""
    x, image = np.ones((3, 8), np.float32), np.ones((1, 4, 6, 6), np.float32)
    bits = np.ones((3, 8), np.int32)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield op, 18, [bits, bits], {}
    yield "BitwiseNot", 18, [bits], {}
    for op, opset in (("Gelu", 20), ("Mish", 18), ("Swish", 24)):
        yield op, opset, [x], {}
    yield "GlobalLpPool", 17, [image], {}
    yield "LpPool", 17, [image], {"kernel_shape": [2, 2]}
    yield "LpNormalization", 17, [x], {}
    yield "GroupNormalization", 21, [image, np.ones(4, np.float32), np.ones(4, np.float32)], {"num_groups": 2}
    yield "RMSNormalization", 23, [x, np.ones(8, np.float32)], {}
    yield "CumProd", 26, [x, np.array(1, np.int64)], {}
    yield "BitCast", 26, [x], {"to": TensorProto.INT32}
    yield "TensorScatter", 24, [np.ones((2, 4, 5), np.float32), np.ones((2, 2, 5), np.float32), np.zeros(2, np.int64)], {}
    yield "Bernoulli", 17, [x], {}
    yield "Multinomial", 17, [x], {"sample_size": 3}
    for op in ("RandomNormal", "RandomUniform"):
        yield op, 17, [], {"shape": [3, 4]}
        yield f"{op}Like", 17, [x], {}


def model_of(op, opset, inputs, attributes):
    names = [f"in{i}" for i in range(len(inputs))]
    infos = [helper.make_tensor_value_info(name, NUMBERS[value.dtype], value.shape) for name, value in zip(names, inputs)]
    # A single number is a parameter.
    constants = [numpy_helper.from_array(value, name) for name, value in zip(names, inputs) if value.ndim == 0]
    infos = [info for info, value in zip(infos, inputs) if value.ndim > 0]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], name="node", **attributes)], "case", infos, [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ops_of(graph):
    for node in graph.node:
        yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from ops_of(attribute.g)


def refused():
    """Tests that are listed as ones that do not pass."""
    names = set()
    for file in ("device_expected.txt", "import_expected.txt"):
        with open(os.path.join(HERE, file), encoding="utf-8") as lines:
            names |= {line.split("\t")[0] for line in lines if "\t" in line}
    return names


def backend_cases():
    """By operator the tests of ONNX with it, ones with few nodes first: (number of nodes, name, model)."""
    found, listed = collections.defaultdict(list), refused()
    for suite in SUITES:
        for path in sorted(glob.glob(os.path.join(DATA, suite, "*", "model.onnx"))):
            name = f"{suite}/{os.path.basename(os.path.dirname(path))}"
            if name in listed:
                continue
            model = onnx.load(path)
            for op in set(ops_of(model.graph)):
                found[op].append((len(model.graph.node), name, model))
    for op, cases in found.items():
        # In a body it is beside others, too.
        cases.sort(key=lambda case: (case[0], op not in (node.op_type for node in case[2].graph.node), SUITES.index(case[1].split("/")[0]), case[1]))
    return found


def script_cases():
    """The same of the script beside ONNX Runtime."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    import microsoft_ops
    found = collections.defaultdict(list)
    for name, op, inputs, outputs, attributes, constants in microsoft_ops.cases():
        model, _ = microsoft_ops.model_of(op, inputs, outputs, attributes, constants)
        found[next(ops_of(model.graph))].append((1, f"{SCRIPT}: {name}", model))
    return found


def cases_of(ops):
    backend, script, found = backend_cases(), script_cases(), {}
    own = collections.defaultdict(list)
    for op, opset, inputs, attributes in own_cases():
        own[op].append((1, f"{UNIT}/{OF_UNITS[op]}" if op in OF_UNITS else f"{GENERATOR}: {op}", model_of(op, opset, inputs, attributes)))
    for op in ops:
        found[op] = backend[op] or script[op] or own[op]
    return found


def bind(name, model):
    """Models with one input more bound to its data in each: what a node takes as numbers only is known then. With what compile() takes."""
    yield model, {}
    suite, _, test = name.partition("/")
    folder = os.path.join(DATA, suite, test, "test_data_set_0")
    if suite not in SUITES or not os.path.isdir(folder):
        return
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    dims, shapes = {}, {}
    for k in range(len(inputs) - 1, -1, -1):
        kind = inputs[k].type.WhichOneof("value")
        with open(os.path.join(folder, f"input_{k}.pb"), "rb") as file:
            data = file.read()
        if kind != "tensor_type":
            if kind == "sequence_type":
                sequence = onnx.SequenceProto.FromString(data)
                dims[f"{inputs[k].name}[]"] = len(sequence.tensor_values)
                shapes.update({f"{inputs[k].name}[{i}]": list(tensor.dims) for i, tensor in enumerate(sequence.tensor_values)})
            continue
        tensor = onnx.TensorProto.FromString(data)
        tensor.name = inputs[k].name
        bound.graph.initializer.append(tensor)
        yield bound, {"dims": dims, "shapes": shapes}
    if dims:
        yield model, {"dims": dims, "shapes": shapes}


def retyped(model, element):
    """The model with another type in place of that of the first input; None where an operand cannot have it."""
    first = next((value for value in model.graph.input if value.type.HasField("tensor_type")), None)
    if first is None:
        return None
    old = first.type.tensor_type.elem_type
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for value in (*result.graph.input, *result.graph.output, *result.graph.value_info):
        if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type == old:
            value.type.tensor_type.elem_type = element
    for tensor in result.graph.initializer:
        if tensor.data_type != old:
            continue
        if element == TensorProto.BFLOAT16:
            whole = (numpy_helper.to_array(tensor).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            tensor.CopyFrom(helper.make_tensor(tensor.name, element, list(tensor.dims), whole.tobytes(), raw=True))
        else:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(next(dtype for dtype, number in NUMBERS.items() if number == element)), tensor.name))
    # Results have the type that follows.
    for value in result.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = TensorProto.UNDEFINED
    return result


def engines_of(openhpu, name, model):
    """The engines of the commands; with the model that compiled, None: none did."""
    for bound, given in bind(name, model):
        found = commands_of(openhpu, bound, **given)
        if found:
            return found, bound
    return None


def commands_of(openhpu, model, **given):
    """The engines of its commands; None: it does not compile."""
    try:
        recipe = openhpu.compile(model.SerializeToString(), cpu="native", reports=["schedule"], **given)
    except openhpu.Error:
        return None
    counts = re.match(r"(\d+) MME, (\d+) TPC, (\d+) DMA", recipe.report["reports"]["schedule"])
    return {engine for engine, count in zip(("MME", "TPC", "DMA"), counts.groups()) if int(count)} or {"host"}


def types_of(openhpu, model):
    found = []
    for name, element in ELEMENTS.items():
        other = retyped(model, element)
        if other is None:
            return []
        try:
            openhpu.compile(other.SerializeToString(), cpu="native", opt_level=0)
        except openhpu.Error:
            continue
        found.append(name)
    return found


def look(openhpu, ops):
    lines = []
    for op, cases in cases_of(ops).items():
        if not cases:
            print(f"no test has {op}")
            continue
        engines, types, test = set(), [], None
        for _, name, model in cases[:MOST_CASES]:
            made = engines_of(openhpu, name, model)
            if not made:
                continue
            if not test:
                test, types = name, types_of(openhpu, made[1])
            elif len(model.graph.node) != 1:
                continue  # Engines may be those of the other nodes.
            # Tests of doubles and integers say nothing of the matrix engine.
            floats = retyped(made[1], TensorProto.FLOAT) if "f32" in types else None
            engines |= made[0] | (commands_of(openhpu, floats) or set() if floats else set())
        if not test:
            print(f"no case of {op} compiles")
            continue
        lines.append("\t".join((op, test, " ".join(types), " ".join(sorted(engines, key=("MME", "TPC", "DMA", "host").index)))))
    return lines


def read():
    with open(FILE, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if not line.startswith("#")]


def is_there(test, op, generators, script):
    if test.startswith(f"{SCRIPT}: "):
        return test in script
    if test.startswith(f"{GENERATOR}: "):
        return f'"{op}"' in generators
    if test.startswith(f"{UNIT}/"):
        with open(os.path.join(ROOT, test), encoding="utf-8") as file:
            return f'"{op}"' in file.read()
    return os.path.exists(os.path.join(DATA, test, "model.onnx")) and test not in refused()


def problems(ops):
    generators = ""
    for path in glob.glob(os.path.join(ROOT, "tests", "random", "Ops*.cpp")):
        with open(path, encoding="utf-8") as file:
            generators += file.read()
    script = {name for cases in script_cases().values() for _, name, _ in cases}
    named = {line.split("\t")[0]: line.split("\t")[1] for line in read()}
    for op in ops:
        if op not in named:
            yield f"{op} imports, and no line names a test of it"
        elif not is_there(named[op], op, generators, script):
            yield f"{op}: there is no test {named[op]}, or it does not pass"
    for op in named.keys() - set(ops):
        yield f"{op} does not import"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if not os.path.isdir(DATA):
        print(f"{DATA} is not there (Debian's libonnx-testdata)")
        return 77
    sys.path.insert(0, os.path.join(args.build, "python"))
    import openhpu
    ops = [line.split()[0] for line in openhpu.supported_ops()]
    if args.update or args.check:
        lines = look(openhpu, ops)
        if args.update:
            with open(FILE, "w", encoding="utf-8") as file:
                file.write("# operator, a test that runs it, types of its first operand that it compiles with, engines of its commands; written by op_coverage.py --update.\n")
                file.writelines(f"{line}\n" for line in lines)
        wrong = sorted(set(read()) ^ set(lines))
    else:
        wrong = []
    wrong += problems(ops)
    for line in wrong:
        print(line)
    print(f"{len(ops)} operators, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
