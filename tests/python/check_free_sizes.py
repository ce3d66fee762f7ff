#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that are given late give the same recipe as sizes that are given at once.

    tests/python/check_free_sizes.py build/models resnet18-opset17 unet-opset17

Of models that have an image of fixed size, its batch, height and width are made free first; others have the free
dimensions that they were exported with. Each model is imported with all of them free, the module then compiled for
several sizes, and each recipe compared, byte by byte, with that of the model itself for the same sizes.
Exit codes: 0 ok, 1 a wrong call, 2 a recipe differs or a program failed.
"""

import os
import subprocess
import sys
import tempfile

import onnx

import script_arguments

IMAGE = ("batch", None, "h", "w")
SIZES = {"batch": (1, 3), "h": (64, 96), "w": (96, 32), "seq": (57, 1)}


def freed(model):
    """Whether its image was found and has free dimensions now."""
    constants = {tensor.name for tensor in model.graph.initializer}
    images = [value for value in model.graph.input if value.name not in constants and value.name == "image"]
    for value in images:
        for dim, name in zip(value.type.tensor_type.shape.dim, IMAGE):
            if name:
                dim.dim_param = name
    if images:
        del model.graph.value_info[:]
        for value in model.graph.output:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    return bool(images)


def free_names(model):
    return sorted({dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim
                   if dim.HasField("dim_param")})


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])


def check(compiler, folder, work):
    """What differs, one line each; the number of sizes that were compared."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    path = os.path.join(work, "model.onnx")
    if not free_names(model) and not freed(model):
        return ["it has no free dimension and no image"], 0
    onnx.save(model, path)
    names = free_names(model)
    late, module = os.path.join(work, "late.recipe"), os.path.join(work, "module.mlir")
    run(compiler, path, "--stop-after", "import", "-o", module)
    wrong = []
    for which in range(2):
        dims = [word for name in names for word in ("--dim", f"{name}={SIZES[name][which]}")]
        once = os.path.join(work, "once.recipe")
        run(compiler, module, *dims, "-o", late)
        run(compiler, path, *dims, "-o", once)
        with open(late, "rb") as a, open(once, "rb") as b:
            if a.read() != b.read():
                wrong.append("another recipe with " + " ".join(dims))
    return wrong, 2


def main():
    parser = script_arguments.parser(__doc__)
    parser.add_argument("folder", help="of models, as export_models.py makes it")
    parser.add_argument("models", nargs="*", help="folders in it; default: those with free dimensions")
    args = script_arguments.parse(parser, sys.argv[1:])
    try:
        compiler = script_arguments.tool(args.build, "hpu-compile")
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    models = args.models or sorted(name for name in os.listdir(args.folder) if "-dyn" in name)
    failed = not models
    for name in models:
        with tempfile.TemporaryDirectory() as work:
            try:
                wrong, count = check(compiler, os.path.join(args.folder, name), work)
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                wrong, count = [str(error)], 0
        failed |= bool(wrong)
        print(f"{name}: " + ("; ".join(wrong) if wrong else f"the same recipe for {count} sizes"), flush=True)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
