#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports decoders from PyTorch, generates with the example programs, and compares the tokens with PyTorch's.

    check.py BUILD [TOKENS]

BUILD is the build folder. Beside the tokens: nothing is compiled after the first time, and what the trace says that is
written to the cache in a step does not depend on how long it is. Exit codes: 0 ok, 1 a wrong call, 2 something differs.
"""

import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPT = [3, 141, 59, 26, 535]


def export(net, module, path):
    sizes = {"batch": 1, "seq": 2, "past": 3}
    shapes = {name: [sizes.get(dim, dim) for dim in dims] for name, dims in net.inputs.items()}
    inputs = [torch.zeros(shape, dtype=torch.int64 if index == 0 else torch.float32)
              for index, shape in enumerate(shapes.values())]
    axes = {name: {axis: dim for axis, dim in enumerate(dims) if isinstance(dim, str)} for name, dims in net.inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs), path, opset_version=17, input_names=list(net.inputs),
                          output_names=list(net.outputs), dynamic_axes=axes)


def expected(net, module, count):
    """PyTorch's tokens."""
    caches = [torch.zeros([{"batch": 1, "past": 0}.get(dim, dim) for dim in dims]) for dims in list(net.inputs.values())[1:]]
    given, tokens = torch.tensor([PROMPT]), []
    with torch.no_grad():
        for _ in range(count):
            logits, *caches = module(given, *caches)
            given = logits[:, -1].argmax(-1)[:, None]
            tokens.append(int(given[0, 0]))
    return tokens


def written(openhpu, session, work):
    """Bytes of HBM that the copies of a step read and write, by the length of the cache: from the device's trace."""
    import json
    found = {}
    [tokens] = [info.name for info in session.inputs if info.name not in session.recipe.states]
    for past in (1, 40, 1000):
        cache = session.state(past=past)
        path = os.path.join(work, f"past{past}.json")
        with openhpu.trace(path):
            session.run({tokens: np.array([[1]], np.int64)}, state=cache)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        found[past] = sum(event["args"].get("hbm_bytes", 0) for event in events if event.get("cat") == "dma")
    return found


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 64
    sys.path[:0] = [os.path.join(build, "python"), os.path.join(ROOT, "tests", "models")]
    os.environ["PYTHONPATH"] = os.path.join(build, "python")
    import nets_late
    import openhpu
    failed = False
    with tempfile.TemporaryDirectory(prefix="hpu-generation-") as work:
        for name in ("gpt2", "llama"):
            net, module, path = nets_late.NETS[name], nets_late.build(name), os.path.join(work, name + ".onnx")
            export(net, module, path)
            wanted = expected(net, module, count)
            arguments = [path, str(count), *map(str, PROMPT)]
            for program in ([os.path.join(build, "bin", "example_generation")],
                            [sys.executable, os.path.join(ROOT, "examples", "generation", "generate.py")]):
                result = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=600, check=False)
                same = result.stdout.split() == [str(token) for token in wanted]
                failed |= not same
                print(f"{name}, {os.path.basename(program[-1])}: {'the tokens of PyTorch' if same else 'OTHER TOKENS'} "
                      f"({count}); {result.stderr.strip()}")
            recipe = openhpu.compile(path, dims={"batch": 1, "seq": (1, 512), "past": (0, 1024)}, cache="",
                                     states={"present_*": "past_*"})
            with openhpu.Session(recipe) as session:
                traffic = written(openhpu, session, work)
            # A row of keys and one of values a layer, read and written; HBM is accessed in 256 bytes or parts of rows.
            rows = sum(int(np.prod([dim for dim in dims if not isinstance(dim, str)])) * 4 for dims in list(net.inputs.values())[1:])
            constant = len(set(traffic.values())) == 1
            failed |= not constant
            print(f"{name}: copies of a step move {traffic} bytes by length of the cache, whose new rows have {rows}"
                  f"{'' if constant else ': NOT CONSTANT'}")
    sys.exit(2 if failed else 0)


if __name__ == "__main__":
    main()
