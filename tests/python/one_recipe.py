#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One recipe serves all shapes: each network is exported and compiled once, and its recipe run at random sizes, beside PyTorch.

    tests/python/one_recipe.py --count 200 resnet50 llama

The networks, what is free in them and between which bounds: tests/models/nets_late.py. The first shapes are the least and
the greatest sizes, together and each alone; the others are drawn. Every element of every output is to lie within TOLERANCE
of PyTorch's in f32. A shape that is refused is an error, and so is a second compilation; what a network cannot take is
asked for once, and must be refused with the dimension's name.
Exit codes: 0 ok, 1 a wrong call, 2 an output is wrong, 3 a shape or the model was refused, or compiled more than once.
"""

import os
import random
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

import script_arguments
from model_runs import FAILED, OK, WRONG

sys.path.insert(0, os.path.join(script_arguments.ROOT, "tests", "models"))
import nets  # noqa: E402
import nets_late  # noqa: E402

OPSET = 17
# |ours - PyTorch's| <= TOLERANCE * the root mean square of PyTorch's output: sums in another order, over some dozen layers.
TOLERANCE = 2e-4


class Refused(Exception):
    """What was refused that must not be, or the other way round."""


def drawn_sizes(net, count, generator):
    """`count` sizes: all least, all greatest, each extreme alone with the others drawn, then all drawn."""
    def draw(fixed):
        sizes = {}
        for dim, (low, high) in net.bounds.items():
            step = net.step.get(dim, 1)
            sizes[dim] = fixed[dim] if dim in fixed else step * generator.randint(-(-low // step), high // step)
        return sizes

    ends = [{dim: bounds[end] for dim, bounds in net.bounds.items()} for end in (0, 1)]
    alone = [draw({dim: size}) for dim in net.bounds for size in (ends[0][dim], ends[1][dim])]
    return [*ends, *alone, *(draw({}) for _ in range(count))][:count]


def export(name, module, path):
    """The network as PyTorch exports it, with its free dimensions named."""
    net = nets_late.NETS[name]
    inputs = nets_late.example(name, {dim: max(low, step_of(net, dim, 3)) for dim, (low, _) in net.bounds.items()},
                               torch.Generator().manual_seed(0))
    axes = {key: {axis: dim for axis, dim in enumerate(dims) if isinstance(dim, str)} for key, dims in net.inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), path, opset_version=OPSET, input_names=list(inputs),
                          output_names=list(net.outputs), dynamic_axes=axes)


def step_of(net, dim, size):
    return size * net.step.get(dim, 1)


def largest_error(actual, expected):
    """The largest difference, in root mean squares of what is expected."""
    if actual.shape != expected.shape:
        raise Refused(f"an output has the shape {actual.shape}, PyTorch's {expected.shape}")
    if expected.size == 0:
        return 0.0
    scale = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    difference = float(np.max(np.abs(actual.astype(np.float64) - expected)))
    return difference / scale if np.isfinite(difference) else float("inf")


def check(openhpu, name, count, seed, target, work):
    """(an exit code, one line about it)."""
    net, compiled = nets_late.NETS[name], []
    module = nets_late.build(name)
    path = os.path.join(work, name + ".onnx")
    export(name, module, path)
    start = openhpu._core.Compilation

    def counted(*arguments):
        compiled.append(arguments)
        return start(*arguments)

    openhpu._core.Compilation = counted
    begin = time.monotonic()
    worst, code = 0.0, OK
    try:
        recipe = openhpu.compile(path, dims=net.bounds, target=target, cache="")
        took = time.monotonic() - begin
        missing = {dim for dim, bounds in net.bounds.items() if recipe.dims.get(dim) != bounds}
        if missing:
            raise Refused(f"the recipe has no such bounds of {', '.join(sorted(missing))}: {recipe.dims}")
        with openhpu.Session(recipe) as session:
            for number, sizes in enumerate(drawn_sizes(net, count, random.Random(seed))):
                text = " ".join(f"{dim}={size}" for dim, size in sizes.items())
                inputs = nets_late.example(name, sizes, torch.Generator().manual_seed(seed + number))
                with torch.no_grad():
                    expected = module(*inputs.values())
                expected = (expected,) if isinstance(expected, torch.Tensor) else expected
                try:
                    outputs = session.run({key: value.numpy() for key, value in inputs.items()})
                except openhpu.Error as error:
                    raise Refused(f"{text}: {error.message}") from None
                for key, wanted in zip(net.outputs, expected, strict=True):
                    error = largest_error(outputs[key], wanted.numpy())
                    worst = max(worst, error)
                    if not error <= TOLERANCE:
                        code = WRONG
                        print(f"{name}: {text}: '{key}' differs by {error:.2g} of its root mean square", flush=True)
            refuse(openhpu, name, session)
        if len(compiled) != 1:
            raise Refused(f"it was compiled {len(compiled)} times")
    except (openhpu.Error, Refused) as error:
        return FAILED, str(error)
    finally:
        openhpu._core.Compilation = start
    return code, (f"{count} shapes with 1 compilation of {took:.1f} s; they took {time.monotonic() - begin - took:.0f} s; "
                  f"largest error {worst:.1e} of {TOLERANCE:.0e}")


def refuse(openhpu, name, session):
    """Sizes beyond a bound, and those that the network itself cannot take, are refused in one line with the dimension."""
    net = nets_late.NETS[name]
    least = {dim: low for dim, (low, _) in net.bounds.items()}
    cases = [(dict(least, **{dim: high + 1}), (f"'{dim}'", str(high))) for dim, (_, high) in net.bounds.items()]
    for sizes, words in [*cases, *net.refused]:
        inputs = nets_late.example(name, sizes, torch.Generator().manual_seed(0))
        try:
            session.run({key: value.numpy() for key, value in inputs.items()})
        except openhpu.InvalidArgumentError as error:
            if "\n" in error.message or not all(word in error.message for word in words):
                raise Refused(f"{sizes} is refused without {' and '.join(words)}, or not in one line: {error.message}") from None
        else:
            raise Refused(f"{sizes} ran, and should have been refused")


def main():
    parser = script_arguments.parser(__doc__)
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"default: all of {', '.join(nets_late.NETS)}")
    parser.add_argument("--count", type=int, default=10, help="shapes of each network")
    parser.add_argument("--seed", type=int, help="of the shapes and inputs; default: the network's own")
    parser.add_argument("--target", default="gaudi2")
    args = script_arguments.parse(parser, sys.argv[1:])
    unknown = [name for name in args.nets if name not in nets_late.NETS]
    if unknown or args.count < 1:
        print(f"error: no network '{unknown[0]}'" if unknown else "error: --count is at least 1", file=sys.stderr)
        return 1
    sys.path.insert(0, os.path.join(args.build, "python"))
    import openhpu  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    codes = []
    for name in args.nets or nets_late.NETS:
        with tempfile.TemporaryDirectory(prefix="hpu-one-recipe-") as work:
            seed = nets.seed_of(name) if args.seed is None else args.seed
            code, line = check(openhpu, name, args.count, seed, args.target, work)
        codes.append(code)
        print(f"{name}: {'' if code == OK else 'FAILED: '}{line}", flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
