#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the reference models with PyTorch's f32 and bf16 results; no download, fixed seeds.

Each model becomes DIR/<name>-opset<k>[-dynamic|-dynseq]/ with model.onnx, test_data_set_0/ (and
test_data_set_1/ of other sizes where dimensions are free), output_k_bf16.pb and bf16.json
(PyTorch's own bf16 run of data set 0 and its error), and export.json. A folder whose content key
still fits is left alone.
"""

import argparse
import copy
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import onnx  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

import op_coverage  # noqa: E402
import nets  # noqa: E402
import onnx_io  # noqa: E402

OPSETS = (13, 17)
ORT_BENCH = os.path.join(HERE, "..", "..", "benchmarks", "ort", "ort_bench.js")

# Variant name -> (free dimensions, sizes of each data set as keyword arguments of the input).
VARIANTS = {
    "": ({}, [{"batch": 1}]),
    "dynamic": ({0: "batch"}, [{"batch": 1}, {"batch": 3}]),
    "dynseq": ({0: "batch", 1: "seq"}, [{"batch": 1}, {"batch": 2, "length": 57}]),
}


def content_key(name, opset, variant):
    """Hash of everything that determines the exported bytes."""
    digest = hashlib.sha256(repr((name, opset, variant, torch.__version__, torchvision.__version__,
                                  onnx.__version__)).encode())
    for script in ("export_models.py", "nets.py", "onnx_io.py"):
        with open(os.path.join(HERE, script), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def bf16_copy(module):
    """The module as model.to(bfloat16), with transposed convolutions made right.

    PyTorch 1.13's bf16 ConvTranspose2d on the CPU computes an ordinary convolution. Here it is
    computed in f32 from bf16 operands and its result rounded to bf16, as a bf16 kernel would.
    """
    module = copy.deepcopy(module).to(torch.bfloat16)

    def forward(self, x):
        bias = None if self.bias is None else self.bias.float()
        result = nn.functional.conv_transpose2d(
            x.float(), self.weight.float(), bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation)
        return result.to(torch.bfloat16)

    for layer in module.modules():
        if isinstance(layer, nn.ConvTranspose2d):
            layer.forward = types.MethodType(forward, layer)
    return module


def run_bf16(module, inputs):
    if inputs.is_floating_point():
        inputs = inputs.to(torch.bfloat16)
    with torch.no_grad():
        return bf16_copy(module)(inputs).float().numpy()


def export_onnx(name, module, inputs, opset, axes, path):
    model = nets.MODELS[name]
    mode = torch.onnx.TrainingMode.PRESERVE if model.keep_bn else torch.onnx.TrainingMode.EVAL
    names = {model.input_name: axes, model.output_name: axes} if axes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, path, opset_version=opset, training=mode,
                          input_names=[model.input_name], output_names=[model.output_name],
                          dynamic_axes=names)
    # Not by path: a full check by path writes the shapes that it infers into the file.
    onnx.checker.check_model(onnx.load(path), full_check=True)


def check_with_ort(folder, data_set):
    """One line of ONNX Runtime's verdict on a data set, or why it was not asked; raises if wrong."""
    modules = os.path.join(os.path.dirname(ORT_BENCH), "node_modules", "onnxruntime-node")
    if shutil.which("node") is None or not os.path.isdir(modules):
        return "not checked (see benchmarks/README.md for the npm install)"
    result = subprocess.run(
        ["node", ORT_BENCH, os.path.join(folder, "model.onnx"), "--data",
         os.path.join(folder, data_set), "--iters", "1", "--warmup", "0", "--check"],
        capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"ONNX Runtime disagrees on {folder}/{data_set}: "
                           f"{result.stdout}{result.stderr}")
    return result.stdout.strip().splitlines()[-1].strip()


def export_one(name, opset, variant, out, check_ort):
    """Exports one folder through a temporary one, so that an interrupted run leaves no half."""
    target = os.path.join(out, f"{name}-opset{opset}" + (f"-{variant}" if variant else ""))
    key = content_key(name, opset, variant)
    stamp = os.path.join(target, "export.json")
    if os.path.exists(stamp) and onnx_io.load_json(stamp).get("key") == key:
        print(f"{os.path.basename(target)}: up to date")
        return target
    begin = time.monotonic()
    axes, data_sets = VARIANTS[variant]
    model = nets.MODELS[name]
    module = nets.build(name)
    work = tempfile.mkdtemp(prefix=".export-", dir=out)
    try:
        checks = []
        for index, sizes in enumerate(data_sets):
            inputs = nets.example(name, index=index, **sizes)
            with torch.no_grad():
                output = module(inputs).numpy()
            folder = f"test_data_set_{index}"
            onnx_io.save_data_set(os.path.join(work, folder), [(model.input_name, inputs.numpy())],
                                  [(model.output_name, output)])
            if index == 0:
                export_onnx(name, module, inputs, opset, axes, os.path.join(work, "model.onnx"))
                spread = nets.activation_spread(module, inputs)
                rounded = run_bf16(module, inputs)
                bf16 = onnx_io.save_bf16_reference(
                    work, [model.output_name], [rounded], [output],
                    f"PyTorch {torch.__version__} CPU, model.to(bfloat16)")
            checks.append(check_with_ort(work, folder) if check_ort else "not asked")
        onnx_io.save_json(os.path.join(work, "export.json"), {
            "key": key, "model": name, "opset": opset, "variant": variant, "note": model.note,
            "free_dims": sorted(axes.values()), "onnxruntime": checks,
            "activation_std": {"min": spread[0], "max": spread[1]}})
        os.chmod(work, 0o755)  # mkdtemp makes it private
        shutil.rmtree(target, ignore_errors=True)
        os.replace(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"{os.path.basename(target)}: exported in {time.monotonic() - begin:.1f} s, "
          f"activations std {spread[0]:.2f}..{spread[1]:.2f}, PyTorch bf16 rel_rms "
          f"{bf16['rel_rms']:.4f}; onnxruntime: {'; '.join(checks)}", flush=True)
    return target


def jobs(args):
    names = args.model or list(nets.MODELS)
    variants = [""] + (["dynamic"] if args.dynamic_batch else []) + (
        ["dynseq"] if args.dynamic_seq else [])
    return [(name, opset, variant) for name in names for opset in args.opset or OPSETS
            for variant in variants if variant != "dynseq" or nets.MODELS[name].free_length]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="folder to export into")
    parser.add_argument("--model", action="append", choices=list(nets.MODELS), help="default: all")
    parser.add_argument("--opset", action="append", type=int, choices=OPSETS, help="default: both")
    parser.add_argument("--dynamic-batch", action="store_true",
                        help="also export <name>-opset<k>-dynamic with a free dimension 'batch'")
    parser.add_argument("--dynamic-seq", action="store_true",
                        help="also export -dynseq with free 'batch' and 'seq' (sequence models)")
    parser.add_argument("--no-ort", action="store_true", help="do not ask ONNX Runtime")
    parser.add_argument("--coverage", metavar="FILE", help="write the op types as Markdown too")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    args = parser.parse_args()
    if args.list:
        for name, model in nets.MODELS.items():
            print(f"{name:20} {model.note}")
        return 0
    if not args.out:
        parser.error("--out DIR is needed")

    # One thread: sums are then the same on machines with another number of cores.
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    folders = [export_one(*job, args.out, not args.no_ort) for job in jobs(args)]
    models = {os.path.basename(folder): onnx.load(os.path.join(folder, "model.onnx"))
              for folder in folders}
    print("\n" + op_coverage.count_lines(models))
    if args.coverage:
        with open(args.coverage, "w", encoding="utf-8") as file:
            file.write(op_coverage.markdown(models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
