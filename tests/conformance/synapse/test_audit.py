# SPDX-License-Identifier: Apache-2.0
"""Every node type of node_types.txt compiles or says why not; and it is the list that docs/synapse-guids.md is."""

import os
import re
import struct

from api_params import axis_params, slice_params, strided_params, transpose_params
from cases import *
from layer_params import params

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {name: dtype for dtype, name in TYPE_NAMES.items() if dtype != torch.bool}
SYN = {"f8": 8192, "u32": 1024}
suite = Suite()


def activation():
    return struct.pack("<BBHIQQ", 0, 0, 0, 1, 0, 0)


def number(text):
    if text.startswith("["):
        return [int(v) for v in text[1:-1].split(",")]
    return float(text) if re.search(r"[.e]", text) else int(text)


def parameters(text):
    kind, _, value = text.partition(":")
    numbers = [int(v) for v in re.findall(r"-?\d+", value)] if kind not in ("text", "bytes") else []
    if kind.startswith("ns_"):
        name, *members = text.split()
        return params(name, **{key: number(v) for key, v in (m.split("=") for m in members)})
    if kind == "axis":
        return axis_params(numbers[0])
    if kind == "transpose":
        return transpose_params(numbers)
    if kind == "conv":
        return struct.pack("<4I4i2I", *numbers, 1, 1, 0, 0, 0, 0, 1, 1) + activation() + struct.pack("<2I", 1, 0)
    if kind == "conv3d":
        return struct.pack("<3I3I6i3II", *numbers, 1, 1, 1, *[0] * 6, 1, 1, 1, 0) + activation() + struct.pack("<2I", 1, 0)
    if kind == "take":
        return struct.pack("<3I", *numbers)
    if kind == "slice":
        return slice_params([tuple(numbers)])
    if kind == "strides":
        return strided_params(numbers[0], list(reversed(numbers[1:])))
    if kind == "text":
        return value.encode().ljust(51, b"\0")
    if kind == "bytes":
        return bytes.fromhex(value)
    raise ValueError(text)


def sizes(text):
    return tuple(int(s) for s in text.split("x"))


def operand(c, word, default):
    if word == "-":
        return None
    kind, _, shape = word.rpartition(":")
    if kind == "shape":
        return c.shape(sizes(shape))
    kind = kind or default
    if kind in SYN:  # One byte, or an integer: zeros.
        zeros = torch.zeros(sizes(shape), dtype=torch.int8 if kind == "f8" else torch.int32)
        return c.input(zeros, dtype=SYN[kind])
    dtype = TYPES[kind]
    return c.input(rand(*sizes(shape), dtype=dtype, low=0.1 if dtype.is_floating_point else 0, high=0.9 if dtype.is_floating_point else 2))


def result(c, word, default):
    """Seen by the graph's user, so that it is computed; what comes out is the other tables' to judge."""
    if word == "-":
        return None
    if word == "?":
        return c.tensor(None, None, c.section("persistent"))
    kind, _, shape = word.rpartition(":")
    if kind == "shape":
        return c.tensor(sizes(shape), torch.int32, None, type=1)
    return c.tensor(sizes(shape), SYN.get(kind) or TYPES[kind or default], c.section("persistent"))


names = {}  # To whether it is there.
for line in open(os.path.join(HERE, "node_types.txt")):
    line = line.split("#")[0].strip()
    if not line:
        continue
    refusal = re.match(r"([^!]*)!\s*(.*)", line)
    head, _, form = refusal[1].partition("\0") if refusal else line.partition(" :")
    listed, _, kind = (part.strip() for part in head.partition("/"))
    kind = kind or None
    for name in listed.split():
        assert name not in names, f"{name} is there twice"
        names[name] = refusal is None
        guid = f"{name}_{kind}" if kind else name
        c = suite.case(name)
        default = kind if kind and kind not in SYN else "f32"
        if refusal:
            x = rand(2, 3)
            c.node(guid, [c.input(x)], [c.output(x)]).fails(refusal[2])
            continue
        form_text, _, p = form.partition(" ; ")
        before, _, after = form_text.partition("->")
        inputs = [operand(c, w, kind or "f32") for w in before.split()]
        outputs = [result(c, w, default) for w in after.split()]
        c.node(guid, inputs, outputs, parameters(p.strip()) if p.strip() else b"")

# The other direction: the document has the same names, and says the same of each.
document = {}
for line in open(os.path.join(HERE, "../../../docs/synapse-guids.md")):
    row = re.match(r"\| `(\w+)` \|.*\| (yes|no: .*) \|$", line)
    if row:
        document[row[1]] = row[2] == "yes"
INTERNAL = "the compiler's own"
wrong = 0
for name in sorted(set(names) | set(document)):
    listed = "cast" if name.startswith("cast_") else name
    if name == "cast":
        continue
    if name not in names:
        wrong += 1
        print(f"FAILED {name}: is in docs/synapse-guids.md and not in node_types.txt")
    elif listed not in document:
        own = next(c for c in suite.cases if c.name == name)
        if own.error is None or INTERNAL not in own.error:
            wrong += 1
            print(f"FAILED {name}: is in node_types.txt and not in docs/synapse-guids.md")
    elif document[listed] != names[name]:
        wrong += 1
        print(f"FAILED {name}: is there in one of the two lists only")
sys.exit(suite.main() or wrong > 0)
