#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the reference models with PyTorch's f32 and bf16 results; no download, fixed seeds.

Each model becomes DIR/<name>-opset<k>[-b<batch>][s<length>][-dynamic|-dynseq]/ with model.onnx,
test_data_set_0/ (and test_data_set_1/ of other sizes where dimensions are free) and export.json;
at batch 1 also output_k_bf16.pb and bf16.json, PyTorch's own bf16 run of data set 0 and its error.
A folder whose content key still fits is left alone.
"""

import argparse
import copy
import dataclasses
import functools
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
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import op_coverage  # noqa: E402
import nets  # noqa: E402
import onnx_io  # noqa: E402

OPSETS = (13, 17)
ORT_BENCH = os.path.join(HERE, "..", "..", "benchmarks", "ort", "ort_bench.js")

@dataclasses.dataclass(frozen=True)
class Job:
    """One folder to export. `free` is "", "dynamic" (the batch) or "dynseq" (batch and length)."""

    name: str
    opset: int
    batch: int = 1
    length: int = 0  # the model's own when 0
    free: str = ""

    def folder(self):
        size = f"b{self.batch}" * (self.batch != 1) + f"s{self.length}" * (self.length != 0)
        return "-".join(filter(None, (self.name, f"opset{self.opset}", size, self.free)))

    def axes(self):
        """Names of the free dimensions, the same of every input and output."""
        return {"": {}, "dynamic": {0: "batch"}, "dynseq": {0: "batch", 1: "seq"}}[self.free]

    def data_sets(self):
        """Sizes of each data set as keyword arguments of the inputs."""
        first = dict({"batch": self.batch}, **({"length": self.length} if self.length else {}))
        other = {"": [], "dynamic": [{"batch": 3}], "dynseq": [{"batch": 2, "length": 57}]}
        return [first, *other[self.free]]


def content_key(job):
    """Hash of everything that determines the exported bytes."""
    digest = hashlib.sha256(repr((job, torch.__version__, torchvision.__version__,
                                  onnx.__version__)).encode())
    for script in ("export_models.py", "nets.py", "nets_attention.py", "nets_images.py", "nets_quantised.py",
                   "nets_recurrent.py", "nets_sequence.py", "nets_vision.py", "onnx_io.py"):
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


def run(module, inputs):
    """The outputs as a list of arrays: f32, or integers as they are."""
    with torch.no_grad():
        outputs = module(*inputs.values())
    outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
    return [(output.float() if output.is_floating_point() else output).numpy() for output in outputs]


class RoundedToBf16(TorchDispatchMode):
    """Rounds what each op of PyTorch gives to bf16: a run in bf16 with f32 kernels, where PyTorch has none of bf16."""

    def __torch_dispatch__(self, op, kinds, arguments=(), keywords=None):
        def rounded(value):
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                return value.copy_(value.bfloat16().float()) if value.is_contiguous() else value.bfloat16().float()
            return type(value)(map(rounded, value)) if isinstance(value, (tuple, list)) else value
        result = op(*arguments, **(keywords or {}))
        # Views have nothing new in them.
        return result if op._schema.returns and op._schema.returns[0].alias_info else rounded(result)


@functools.lru_cache(maxsize=1)
def network(name):
    return nets.build(name)


# Jobs that differ in the opset only come one after another and share what PyTorch computes.
@functools.lru_cache(maxsize=2)
def reference(name, index, sizes):
    """Inputs by name and f32 outputs of a data set; `sizes` are the items of data_sets()[index]."""
    inputs = nets.example(name, index=index, **dict(sizes))
    return inputs, run(network(name), inputs)


@functools.lru_cache(maxsize=1)
def reference_bf16(name, sizes):
    """The outputs of data set 0 with the module and its inputs in bf16, and how they were computed."""
    inputs, _ = reference(name, 0, sizes)
    narrow = {name: value.to(torch.bfloat16) if value.is_floating_point() else value for name, value in inputs.items()}
    try:
        return run(bf16_copy(network(name)), narrow), "model.to(bfloat16)"
    except RuntimeError:  # PyTorch lacks a kernel
        module = copy.deepcopy(network(name))
        with torch.no_grad(), RoundedToBf16():
            for tensor in (*module.parameters(), *module.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(tensor.bfloat16().float())
            wide = {name: value.float() if value.is_floating_point() else value for name, value in narrow.items()}
            return run(module, wide), "each op's result rounded to bfloat16"


def export_onnx(job, module, inputs, path):
    model = nets.MODELS[job.name]
    mode = torch.onnx.TrainingMode.PRESERVE if model.keep_bn else torch.onnx.TrainingMode.EVAL
    axes = {name: job.axes() for name in (*inputs, *model.outputs)} if job.free else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), path, opset_version=job.opset,
                          training=mode, input_names=list(inputs),
                          output_names=list(model.outputs), dynamic_axes=axes)
    exported = onnx.load(path)
    if model.rewrite:
        exported = model.rewrite(exported)
        onnx.save(exported, path)
    # Not by path: a full check by path writes the shapes that it infers into the file.
    onnx.checker.check_model(exported, full_check=not model.rewrite)


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


def export_one(job, out, check_ort):
    """Exports one folder through a temporary one, so that an interrupted run leaves no half."""
    target = os.path.join(out, job.folder())
    key = content_key(job)
    stamp = os.path.join(target, "export.json")
    if os.path.exists(stamp) and onnx_io.load_json(stamp).get("key") == key:
        print(f"{os.path.basename(target)}: up to date")
        return target
    begin = time.monotonic()
    model = nets.MODELS[job.name]
    module = network(job.name)
    work = tempfile.mkdtemp(prefix=".export-", dir=out)
    try:
        checks, bf16 = [], None
        for index, sizes in enumerate(job.data_sets()):
            sizes = tuple(sizes.items())
            inputs, outputs = reference(job.name, index, sizes)
            folder = f"test_data_set_{index}"
            onnx_io.save_data_set(os.path.join(work, folder),
                                  [(name, value.numpy()) for name, value in inputs.items()],
                                  list(zip(model.outputs, outputs)))
            if index == 0:
                export_onnx(job, module, inputs, os.path.join(work, "model.onnx"))
                spread = nets.activation_spread(module, inputs)
                if job.batch == 1:
                    rounded, how = reference_bf16(job.name, sizes)
                    bf16 = onnx_io.save_bf16_reference(work, list(model.outputs), rounded, outputs,
                                                       f"PyTorch {torch.__version__} CPU, {how}")
            checks.append(check_with_ort(work, folder) if check_ort else "not asked")
        onnx_io.save_json(stamp.replace(target, work), {
            "key": key, "model": job.name, "opset": job.opset, "variant": job.free,
            "note": model.note, "sizes": job.data_sets()[0],
            "free_dims": sorted(job.axes().values()), "onnxruntime": checks,
            "activation_std": {"min": spread[0], "max": spread[1]}})
        os.chmod(work, 0o755)  # mkdtemp makes it private
        shutil.rmtree(target, ignore_errors=True)
        os.replace(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    rounded = f", PyTorch bf16 rel_rms {bf16['rel_rms']:.4f}" if bf16 else ""
    print(f"{os.path.basename(target)}: exported in {time.monotonic() - begin:.1f} s, "
          f"activations std {spread[0]:.2f}..{spread[1]:.2f}{rounded}; "
          f"onnxruntime: {'; '.join(checks)}", flush=True)
    return target


def jobs(args):
    kinds = [""] + ["dynamic"] * args.dynamic_batch + ["dynseq"] * args.dynamic_seq
    found = []
    for name in args.model or list(nets.MODELS):
        model = nets.MODELS[name]
        length = 0 if args.length == model.length else args.length
        for free in kinds:
            for batch in (args.batch or [1]) if not free else [1]:
                if batch != 1 and not model.any_batch:
                    continue
                if model.length or not (length or free == "dynseq"):
                    found += [Job(name, opset, batch, length, free)
                              for opset in args.opset or OPSETS if opset in model.opsets]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", help="folder to export into")
    parser.add_argument("--model", action="append", choices=list(nets.MODELS), help="default: all")
    parser.add_argument("--opset", action="append", type=int, choices=OPSETS, help="default: both")
    parser.add_argument("--batch", action="append", type=int, help="default: 1")
    parser.add_argument("--length", type=int, default=0,
                        help="tokens of the sequence models, and only those (default: their own)")
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
    if args.length < 0 or any(batch < 1 for batch in args.batch or []):
        parser.error("--batch and --length take positive numbers")

    # One thread: sums are then the same on machines with another number of cores.
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    folders = [export_one(job, args.out, not args.no_ort) for job in jobs(args)]
    models = {os.path.basename(folder): onnx.load(os.path.join(folder, "model.onnx"))
              for folder in folders}
    print("\n" + op_coverage.count_lines(models))
    if args.coverage:
        with open(args.coverage, "w", encoding="utf-8") as file:
            file.write(op_coverage.markdown(models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
