#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Errors of every precision beside PyTorch's: f16, fp8 and fp8_e5m2, with calibrated and with computed scales.

fp8: at most 1.25 times the error of a PyTorch emulation with the same scales (fp8_emulation.py), and the scales
that hpu-compile reports are those of the emulation. f16: at most a quarter of the error of PyTorch's own bf16,
since f16 has three more bits. bf16: at most 1.25 times PyTorch's. Exit codes: 0 ok, 2 an error is too large,
3 a tool failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))

# pylint: disable=wrong-import-position
import export_models
import fp8_emulation
import nets
import onnx_io

FACTOR = 1.25
F16_FACTOR = 0.25


def folded(module):
    """Batch norms in the convolutions, as the compiler has them."""
    if not any(isinstance(layer, nn.BatchNorm2d) for layer in module.modules()):
        return module
    from torch.fx.experimental.optimization import fuse  # pylint: disable=import-outside-toplevel
    return fuse(module)


def cases(names):
    """(name, module, inputs) by name."""
    torch.manual_seed(7)
    for name in names:
        if name == "gemm":
            yield name, fp8_emulation.Gemm().eval(), torch.randn(256, 512)
        else:
            (inputs,) = nets.example(name, batch=2).values()
            yield name, nets.build(name), inputs


def bf16_outputs(module, inputs):
    """What PyTorch computes with the module and its input in bf16."""
    return export_models.run(export_models.bf16_copy(module), {"x": inputs.to(torch.bfloat16)})[0]


def export(module, inputs, folder):
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(module, inputs, path, opset_version=17, input_names=["x"], output_names=["y"])
    onnx_io.save_data_set(os.path.join(folder, "test_data_set_0"), [("x", inputs.numpy())], [])
    return path


def tool(build, *arguments):
    result = subprocess.run([os.path.join(build, "bin", arguments[0]), *arguments[1:]], capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        print(f"{' '.join(arguments)}: {result.stderr.strip()}", file=sys.stderr)
        sys.exit(3)
    return result.stdout


def run(build, model, folder, flags):
    tool(build, "hpu-run", model, "--data", folder, "--output", folder, "--iters", "1", "--warmup", "0", "--quiet",
         *flags)
    return torch.from_numpy(np.load(os.path.join(folder, "output_0.npy")))


def reported_scales(build, model, folder, flags):
    """(activation scale, weight scale) of each product of fp8 operands, in program order."""
    text = tool(build, "hpu-compile", model, "-o", os.path.join(folder, "m.recipe"), "--report=precision", *flags)
    return [(float(a), float(b)) for a, b in
            re.findall(r"a: max \S+ scale (\S+), b: max \S+ scale (\S+)", text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build tree with the tools in bin/")
    parser.add_argument("models", nargs="*", default=["gemm", "transformer_encoder", "resnet18"])
    arguments = parser.parse_args()
    failures = 0
    print(f"{'model':20} {'target':7} {'precision':18} {'rel. RMS error':>14} {'PyTorch':>10} {'ratio':>6}")

    def judge(name, target, label, error, yardstick, factor):
        nonlocal failures
        ratio = error / yardstick
        wrong = not ratio <= factor
        failures += wrong
        print(f"{name:20} {target:7} {label:18} {error:14.6f} {yardstick:10.6f} {ratio:6.3f}"
              f"{'  TOO LARGE' if wrong else ''}", flush=True)

    for name, module, inputs in cases(arguments.models):
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            expected = module(inputs)
            model = export(module, inputs, folder)
            bf16 = fp8_emulation.rel_rms(torch.from_numpy(bf16_outputs(module, inputs)), expected)
            for target in ("gaudi2", "gaudi3"):
                base = ["--target", target]
                for precision, factor in (("bf16", FACTOR), ("f16", F16_FACTOR)):
                    result = run(arguments.build, model, folder, base + ["--precision", precision])
                    judge(name, target, precision, fp8_emulation.rel_rms(result, expected), bf16, factor)
                for precision in ("fp8", "fp8_e5m2"):
                    fp8 = fp8_emulation.Fp8(target, precision)
                    same = folded(module)
                    fp8.calibrate(same, inputs)
                    emulated = fp8_emulation.rel_rms(fp8.run(same, inputs), expected)
                    flags = base + ["--precision", precision]
                    calibrated = flags + ["--calibrate", folder]
                    result = run(arguments.build, model, folder, calibrated)
                    judge(name, target, precision, fp8_emulation.rel_rms(result, expected), emulated, FACTOR)
                    scales = reported_scales(arguments.build, model, folder, calibrated)
                    if scales != fp8.used:
                        failures += 1
                        print(f"{name}: the scales {scales} are not the emulation's {fp8.used}")
                    emulated = fp8_emulation.rel_rms(fp8.run(same, inputs, dynamic=True), expected)
                    result = run(arguments.build, model, folder, flags)
                    judge(name, target, precision + ", dynamic", fp8_emulation.rel_rms(result, expected), emulated,
                          FACTOR)
    sys.exit(2 if failures else 0)


if __name__ == "__main__":
    main()
