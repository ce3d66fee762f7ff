# SPDX-License-Identifier: Apache-2.0
"""Runs functions of tosa and linalg on the simulated device and through upstream's own lowering (mlir-opt, mlir-runner),
and compares each element.

    PYTHONPATH=build/python /usr/bin/python3 tests/conformance/mlir/upstream_ops.py [NAME...]

Each case is one function without arguments of its own: inputs are constants of the reference's module, and arguments of
ours. What upstream cannot lower is compared with numpy (the case's `reference`).
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import cases  # noqa: E402

LIBRARIES = ["libmlir_runner_utils.so", "libmlir_c_runner_utils.so"]
PIPELINE = (
    "--pass-pipeline=builtin.module(func.func("
    "tosa-optional-decompositions,tosa-make-broadcastable,tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith{include-apply-rescale=true},"
    "tosa-to-tensor,convert-elementwise-to-linalg,linalg-generalize-named-ops),one-shot-bufferize{bufferize-function-boundaries=true},"
    "func.func(convert-linalg-to-loops),convert-scf-to-cf,expand-strided-metadata,lower-affine,convert-math-to-llvm,"
    "convert-math-to-libm,convert-arith-to-llvm,convert-cf-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,"
    "convert-arith-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts)")
NUMPY = {"f32": np.float32, "i32": np.int32, "i8": np.int8, "i16": np.int16, "i1": np.bool_, "i64": np.int64}
WIDE = {"i8": "i32", "i16": "i32", "i1": "i32"}


def literal(array):
    def text(v):
        if array.ndim == 0 or not isinstance(v, np.ndarray):
            if array.dtype == np.bool_:
                return "true" if v else "false"
            if array.dtype == np.float32:
                return "0x%08X" % np.float32(v).view(np.uint32)
            return str(int(v))
        return "[" + ", ".join(text(x) for x in v) + "]"
    return text(array)


def type_of(array):
    element = next(k for k, v in NUMPY.items() if v == array.dtype.type)
    return "tensor<" + "".join(f"{d}x" for d in array.shape) + element + ">"


def reference_module(name, case):
    """The case's function, and a main that calls it with constants and prints its results."""
    lines = [re.sub(r"(?m)^module \{\n|\n\}\s*\Z", "", case.text.replace("@main", "@tested"))]
    body, arguments = [], []
    for i, array in enumerate(case.inputs):
        body.append(f"    %in{i} = arith.constant dense<{literal(array)}> : {type_of(array)}")
        arguments.append(f"%in{i}")
    results = case.results
    head = f"%r:{len(results)} = " if results else ""
    body.append(f"    {head}call @tested({', '.join(arguments)}) : ({', '.join(type_of(a) for a in case.inputs)}) -> "
                f"({', '.join(results)})")
    for i, result in enumerate(results):
        element = re.search(r"([fi]\d+)>$", result).group(1)
        value = f"%r#{i}" if len(results) > 1 else "%r#0"
        shown, wide = result, WIDE.get(element, element)
        if wide != element:
            shown = result[: -len(element) - 1] + wide + ">"
            op = "arith.extui" if element == "i1" else "arith.extsi"
            body.append(f"    %w{i} = {op} {value} : {result} to {shown}")
            value = f"%w{i}"
        memref = "memref" + shown[len("tensor"):]
        body += [f"    %m{i} = bufferization.to_buffer {value} : {shown} to {memref}",
                 f"    %u{i} = memref.cast %m{i} : {memref} to memref<*x{wide}>",
                 f"    call @printMemref{wide.upper()}(%u{i}) : (memref<*x{wide}>) -> ()"]
    elements = {WIDE.get(e, e) for e in (re.search(r"([fi]\d+)>$", r).group(1) for r in results)}
    for element in sorted(elements):
        lines.append(f"func.func private @printMemref{element.upper()}(memref<*x{element}>) attributes {{llvm.emit_c_interface}}")
    return "\n".join(lines + ["func.func @main() {"] + body + ["    return", "}"])


def run_upstream(name, case, tools, folder):
    source = folder / f"{name}.reference.mlir"
    source.write_text(reference_module(name, case))
    lowered = subprocess.run([str(tools / "bin/mlir-opt"), str(source), PIPELINE], capture_output=True, text=True)
    if lowered.returncode:
        return lowered.stderr.strip().splitlines()[0]
    ran = subprocess.run([str(tools / "bin/mlir-runner"), "-e", "main", "--entry-point-result=void",
                          *[f"--shared-libs={tools / 'lib' / lib}" for lib in LIBRARIES]],
                         input=lowered.stdout, capture_output=True, text=True)
    if ran.returncode:
        return ran.stderr.strip().splitlines()[0]
    arrays = []
    for result, block in zip(case.results, re.split(r"Unranked Memref.*data = *\n", ran.stdout)[1:]):
        numbers = [float(x) for x in re.findall(r"[-+]?(?:nan|inf|[\d.]+(?:e[-+]?\d+)?)", block)]
        shape = [int(d) for d in re.findall(r"(\d+)x", result)]
        arrays.append(np.array(numbers, dtype=np.float64).reshape(shape))
    return arrays


def run_ours(name, case, folder):
    import openhpu
    path = folder / f"{name}.mlir"
    path.write_text(case.text)
    session = openhpu.Session(openhpu.compile(str(path)))
    results = session.run(*case.inputs)
    return results if isinstance(results, list) else [results]


def compare(ours, reference, case):
    if len(ours) != len(reference):
        return f"{len(ours)} results, {len(reference)} expected"
    for i, (have, want) in enumerate(zip(ours, reference)):
        want = np.asarray(want, dtype=np.float64)
        have64 = np.asarray(have, dtype=np.float64)
        if have64.shape != want.shape:
            return f"result {i}: shape {have64.shape}, {want.shape} expected"
        exact = have.dtype.kind in "biu"
        # Upstream prints 6 digits.
        if not np.allclose(have64, want, rtol=0 if exact else 2e-5, atol=0 if exact else case.tolerance, equal_nan=True):
            worst = np.nanargmax(np.abs(have64 - want)) if have64.size else 0
            return f"result {i}: {have64.flat[worst]} where {want.flat[worst]} is expected"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--llvm", type=Path, default=Path("/usr/lib/llvm-22"))
    options = parser.parse_args()
    if not (options.llvm / "bin/mlir-runner").exists():
        print(f"skipped: no mlir-runner in {options.llvm}/bin (Debian's package mlir-22-tools)")
        return 77
    failures, upstream, numpy_only, ops = [], 0, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.CASES.items():
            if options.names and name not in options.names:
                continue
            problem = None
            try:
                ours = run_ours(name, case, Path(folder))
            except Exception as error:  # noqa: BLE001: each case is told
                problem = f"ours: {error}"
            if not problem:
                reference = None
                if case.reference is None or case.both:
                    reference = run_upstream(name, case, options.llvm, Path(folder))
                    if isinstance(reference, str) and case.reference is None:
                        problem = f"upstream: {reference}"
                    elif not isinstance(reference, str):
                        upstream += 1
                if case.reference is not None and not isinstance(reference, list):
                    reference = case.reference(*case.inputs)
                    reference = reference if isinstance(reference, (list, tuple)) else [reference]
                    numpy_only += 1
                problem = problem or compare(ours, reference, case)
            if problem:
                failures.append(name)
                print(f"FAILED {name}: {problem}")
            else:
                ops |= set(re.findall(r"\b((?:tosa|linalg)\.[a-z0-9_]+)", case.text)) - {"tosa.const", "tosa.const_shape", "linalg.yield"}
    tosa = sum(op.startswith("tosa") for op in ops)
    print(f"{upstream} cases were compared with upstream, {numpy_only} with numpy; "
          f"ops in agreement: {tosa} of tosa, {len(ops) - tosa} of linalg; {len(failures)} failures")
    return 1 if failures or (not options.names and (tosa < 60 or len(ops) - tosa < 20)) else 0


if __name__ == "__main__":
    sys.exit(main())
