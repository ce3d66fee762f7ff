# SPDX-License-Identifier: Apache-2.0
"""Cases of SynapseAI graphs and their judgement: what the tables (test_*.py here) are written with.

A case is made of tensors (torch values in framework order; the runner sees SynapseAI's reversed sizes) and nodes; what
it must give is a torch value, or a fragment of the error.

    suite = Suite()
    c = suite.case("gemm_plain")
    c.node("gemm", [c.input(a), c.input(b)], [c.output(a @ b)], gemm_params(False, False))
    suite.case("bad").node(...).fails("the common sizes differ")
    sys.exit(suite.main())
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy
import torch

SYN_TYPES = {
    torch.float32: 4, torch.bfloat16: 2, torch.float16: 256, torch.int8: 1, torch.uint8: 32, torch.int16: 8,
    torch.int32: 16, torch.int64: 32768, torch.bool: 1,
}
TYPE_NAMES = {
    torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8", torch.uint8: "u8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "i8",
}
# Of the largest magnitude of the expected value, and absolute: one rounding of the result and f32 sums inside.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}
SHAPE_TENSOR, HOST_TENSOR = 1, 6


def to_bytes(value):
    """Dense row-major bytes; bool is one byte, bf16 goes through its bits."""
    value = value.detach().contiguous()
    if value.dtype == torch.bool:
        value = value.to(torch.int8)
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().tobytes()
    return value.numpy().tobytes()


def from_bytes(data, dtype, shape):
    dtype = torch.int8 if dtype == torch.bool else dtype
    flat = torch.frombuffer(bytearray(data), dtype=torch.int16 if dtype == torch.bfloat16 else dtype) if data else torch.empty(0, dtype=dtype)
    if dtype == torch.bfloat16 and data:
        flat = flat.view(torch.bfloat16)
    return flat.reshape(shape)


GAP = 0xA5  # What lies between the elements of a strided tensor before a launch, and after it.


def in_memory(value, strides):
    """The memory of a tensor with these strides (bytes, framework order): a list of bytes, and its elements in there."""
    value = value.detach().contiguous()
    size = len(to_bytes(value)) // max(value.numel(), 1)
    extent = size + sum((n - 1) * s for n, s in zip(value.shape, strides)) if value.numel() else 0
    memory = numpy.full(extent, GAP, numpy.uint8)
    elements = numpy.lib.stride_tricks.as_strided(memory, (*value.shape, size), (*strides, 1))
    elements[...] = numpy.frombuffer(to_bytes(value), numpy.uint8).reshape(elements.shape)
    return memory, elements


def sizes_word(shape):
    return ",".join(str(s) for s in reversed(shape))


class Tensor:
    def __init__(self, index, name):
        self.index, self.name = index, name


class Case:
    def __init__(self, name):
        self.name = name
        self.lines, self.expected, self.error = [], {}, None
        self.strides = {}  # Of results, by name.
        self.largest = False  # Persistent tensors of changing sizes are strided by their largest.
        self.sections = self.tensors = self.nodes = 0
        self.tolerance = None

    def section(self, kind):
        self.lines.append(f"section {kind}")
        self.sections += 1
        return self.sections - 1

    def tensor(self, shape, dtype, section=None, name=None, **keys):
        """dtype: torch's, a synDataType, or None: to be inferred."""
        name = name or f"t{self.tensors}"
        words = [f"tensor {name} dtype={SYN_TYPES.get(dtype, dtype or 0)}"]
        if shape is not None:
            words.append(f"sizes={sizes_word(shape)}")
        if section is not None:
            words.append(f"section={section}")
        words += [f"{key}={value}" for key, value in keys.items()]
        self.lines.append(" ".join(words))
        self.tensors += 1
        return Tensor(self.tensors - 1, name)

    def input(self, value, section=None, dtype=None, **keys):
        """A persistent tensor that holds `value` before the launch; `dtype`: a synDataType that its bytes are called instead.
        Of a value that is expanded along its slowest dims the file has one part."""
        section = self.section("persistent") if section is None else section
        part = value
        while part.dim() and part.stride(0) == 0:
            part = part[0]
        return self.tensor(value.shape, dtype or value.dtype, section, data=to_bytes(part).hex(), **keys)

    def strided_input(self, value, strides, section=None, **keys):
        """The same with strides in bytes, framework order."""
        section = self.section("persistent") if section is None else section
        memory, _ = in_memory(value, strides)
        return self.tensor(value.shape, value.dtype, section, strides=sizes_word(strides), data=memory.tobytes().hex(), **keys)

    def const(self, value, **keys):
        return self.tensor(value.shape, value.dtype, None, host=to_bytes(value).hex(), hosttype=SYN_TYPES[value.dtype], **keys)

    def temp(self, shape=None, dtype=None, **keys):
        return self.tensor(shape, dtype, None, **keys)

    def shape(self, shape, **keys):
        return self.tensor(shape, torch.int32, None, type=SHAPE_TENSOR, **keys)

    def host(self, data, **keys):
        return self.tensor((len(data) // 4,), torch.int32, None, type=HOST_TENSOR, host=data.hex(), hosttype=16, **keys)

    def output(self, expected, section=None, declare=True, tolerance=None, check=None, dtype=None, **keys):
        """A persistent tensor that must hold `expected` (torch) after the launch; or, with check(got), something of its
        sizes and type that the function finds nothing wrong with."""
        section = self.section("persistent") if section is None else section
        t = self.tensor(expected.shape if declare else None, dtype or expected.dtype, section, **keys)
        self.expected[t.name] = (expected, tolerance, check)
        return t

    def strided_output(self, expected, strides, **keys):
        """output() with strides; what lies between its elements must stay."""
        memory, _ = in_memory(torch.zeros(expected.shape, dtype=expected.dtype), strides)
        t = self.output(expected, strides=sizes_word(strides), data=memory.tobytes().hex(), **keys)
        self.strides[t.name] = strides
        return t

    def node(self, guid, inputs, outputs, params=b"", name=None, after=None, layouts=None, layout=None, rounding=None, precision=None):
        name = name or f"n{self.nodes}"
        self.nodes += 1
        word = lambda ts: ",".join("-" if t is None else str(t.index) for t in ts)
        line = f"node {guid} {name} inputs={word(inputs)} outputs={word(outputs)}"
        if params:
            line += f" params={bytes(params).hex()}"
        for key, value in (("after", after), ("layouts", layouts), ("layout", layout)):
            if value:
                line += f" {key}={','.join(value)}"
        for key, value in (("rounding", rounding), ("precision", precision)):
            if value is not None:
                line += f" {key}={value}"
        self.lines.append(line)
        return self

    def fails(self, *fragments):
        """The compilation must fail with a message that has all of these in it."""
        self.error = fragments
        return self

    def judge(self, status, message, outputs, sizes):
        """What is wrong, or None."""
        if self.error is not None:
            if status == "ok":
                return "must fail, but compiled"
            missing = [f for f in self.error if f not in message]
            return f"the error lacks {missing}: {message}" if missing else None
        if status != "ok":
            return f"{status} {message}"
        for name, (expected, tolerance, *more) in self.expected.items():
            check = more[0] if more else None
            if name not in outputs:
                return f"there is no output {name}"
            got_sizes, data = outputs[name]
            if got_sizes != (sizes_word(expected.shape) or "-"):
                return f"{name} has sizes {got_sizes}, must have {sizes_word(expected.shape)}"
            if name in self.strides:
                memory, elements = in_memory(expected, self.strides[name])
                if len(memory) != len(data):
                    return f"{name} takes {len(data)} bytes of memory, must take {len(memory)}"
                memory[...] = numpy.frombuffer(data, numpy.uint8)
                data = elements.tobytes()
                elements[...] = GAP
                if (memory != GAP).any():
                    return f"{name}: byte {int((memory != GAP).nonzero()[0][0])} between its elements is written"
            for data, where in ((data, ""), (outputs.get("", {}).get(name), " of the program for all sizes")):
                if data is None:
                    continue
                got = from_bytes(data, expected.dtype, expected.shape)
                wrong = check(got) if check else compare(got, expected, tolerance)
                if wrong:
                    return f"{name}{where}: {wrong}"
        return None


def compare(got, expected, tolerance):
    if expected.dtype == torch.bool:
        expected = expected.to(torch.int8)
    if not expected.is_floating_point():
        tolerance = tolerance or 0
        wrong = (got.to(torch.float64) - expected.to(torch.float64)).abs() > tolerance
    else:
        relative = TOLERANCE[expected.dtype] if tolerance is None else tolerance
        got, expected = got.double(), expected.double()
        finite = expected.isfinite()
        scale = max(expected[finite].abs().max().item(), 1e-30) if finite.any() else 0
        same = (got == expected) | (got.isnan() & expected.isnan())
        wrong = ~same & ~(finite & ((got - expected).abs() <= relative * scale))
    if not wrong.any():
        return None
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {wrong.numel()} differ, first at {list(at)}: {got[at].item()}, must be {expected[at].item()}"


class Suite:
    def __init__(self):
        self.cases = []

    def case(self, name):
        assert all(c.name != name for c in self.cases), f"two cases are called {name}"
        self.cases.append(Case(name))
        return self.cases[-1]

    def main(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--runner", required=True, help="build/tests/synapse_case_runner")
        parser.add_argument("--only", help="cases whose name has this in it")
        parser.add_argument("--level", default="2")
        parser.add_argument("--target", default="gaudi2")
        parser.add_argument("--keep", help="write the cases to this file and keep it")
        parser.add_argument("--free", action="store_true", help="on programs for all sizes, where cases have one; a line says why others do not")
        args = parser.parse_args()
        cases = [c for c in self.cases if not args.only or args.only in c.name]
        if not cases:
            print("no such case")
            return 1
        with tempfile.TemporaryDirectory() as folder:
            path = args.keep or os.path.join(folder, "cases.txt")
            with open(path, "w") as file:
                for c in cases:
                    file.write("\n".join([f"case {c.name}" + (" largest" if c.largest else ""), *c.lines, "end"]) + "\n")
            run = subprocess.run([args.runner, path, f"--level={args.level}", f"--target={args.target}", *(["--free"] if args.free else [])], stdout=subprocess.PIPE, text=True)
        results = self.parse(run.stdout)
        failed = 0
        for c in cases:
            wrong = c.judge(*results[c.name]) if c.name in results else "no result: the runner ended before it"
            if wrong:
                failed += 1
                print(f"FAILED {c.name}: {wrong}")
        if args.free:
            said = [line.split(" ", 3) for line in run.stdout.splitlines() if line.startswith("free ")]
            for words in said:
                if words[2] != "yes":
                    print("no program for all sizes:", words[1], " ".join(words[2:]))
            print(f"{sum(words[2] == 'yes' for words in said)} of {len(cases)} cases ran on a program for all sizes")
        print(f"{len(cases) - failed} of {len(cases)} cases pass")
        if run.returncode:
            print(f"the runner ended with {run.returncode}")
        return 1 if failed or run.returncode else 0

    @staticmethod
    def parse(text):
        results, current = {}, None
        for line in text.splitlines():
            words = line.split(" ", 3)
            if words[0] == "result":
                current = words[1]
                results[current] = (words[2], words[3] if len(words) > 3 else "", {}, {})
            elif words[0] == "output":
                results[current][2][words[1]] = (words[2], bytes.fromhex(words[3]) if len(words) > 3 else b"")
            elif words[0] == "other":
                others = results[current][2].setdefault("", {})
                others[words[1]] = bytes.fromhex(words[3]) if len(words) > 3 else b""
            elif words[0] == "sizes":
                results[current][3][words[1]] = (words[2], int(words[3]))
        return results


_generator = torch.Generator().manual_seed(1)


def rand(*shape, dtype=torch.float32, low=-1.0, high=1.0):
    """Values in [low, high) that every run gets alike; integers for integer types."""
    if dtype.is_floating_point:
        return (torch.rand(shape, generator=_generator) * (high - low) + low).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=_generator) < 0.5
    return torch.randint(int(low), int(high), shape, generator=_generator, dtype=torch.int64).to(dtype)


FLOATS = (torch.float32, torch.bfloat16)
__all__ = ["Suite", "Case", "rand", "compare", "to_bytes", "FLOATS", "TYPE_NAMES", "SYN_TYPES", "torch", "numpy", "sys", "from_bytes"]
