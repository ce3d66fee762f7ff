#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the conformance cases of SynapseAI's node types cost: synGraphCompile, the first launch, a launch beside PyTorch.

    benchmarks/synapse/conformance_time.py build/bin/synapse_case_timer [--tables matrix,norms] [--output FILE]

Every case of tests/conformance/synapse that must compile is compiled in one process by the C API (a program that an
earlier case has left behind is not used again: cases of equal structure are few), launched once, and then launched and
waited for, ROUNDS times in blocks that alternate with PyTorch's on the same two threads. PyTorch's side is what the
table itself computed its expected values with: the calls of ATen from the case's inputs to its outputs are recorded
while the table is read, and played again in the case's types, casts to and from double left out (of 16-bit cases also
in f32; the faster one counts). Each side's time is the least of the rounds. Cases whose expected value is not made of
the inputs by PyTorch alone (numpy, constants, cases that test an error) have no PyTorch side.

Wall time: run it on a machine that is idle; the processor time of compilations (all threads) and the ratio hold on a loaded
one."""
import argparse
import gc
import json
import math
import os
import pathlib
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TABLES = SOURCE / "tests/conformance/synapse"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TABLES))
import cases  # noqa: E402

CASTS = ("aten._to_copy", "aten.detach", "aten.alias", "aten.lift_fresh")


class Recorder(TorchDispatchMode):
    """All calls of ATen, and which one made each tensor."""

    def __init__(self):
        super().__init__()
        self.calls, self.maker, self.leaves = [], {}, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))  # Keeps the tensors, so that no identity is used again.
        for t in tree_flatten(result)[0]:
            if isinstance(t, torch.Tensor):
                self.maker[t._cdata] = len(self.calls) - 1
        return result


class Played:
    """The calls from `inputs` to `outputs`, as a function without arguments; `work`: the type of floating-point values."""

    def __init__(self, recorder, inputs, outputs, work):
        self.steps, self.values, self.work = [], {}, work
        leaves = {t._cdata for t in inputs} | recorder.leaves
        needed, todo, reached = set(), [t for t in outputs], False
        while todo:
            t = todo.pop()
            if t._cdata in leaves or t._cdata not in recorder.maker:
                reached |= t._cdata in leaves
                self.values[t._cdata] = self.own(t)
                continue
            at = recorder.maker[t._cdata]
            if at in needed:
                continue
            func, args, kwargs, _ = recorder.calls[at]
            parts = [v for v in tree_flatten((args, kwargs))[0] if isinstance(v, torch.Tensor)]
            if func._schema.is_mutable:
                raise ValueError(f"{func} changes its operand")
            if not parts and inputs:
                self.values[t._cdata] = self.own(t)
                continue
            needed.add(at)
            todo += parts
        if not needed or (inputs and not reached):
            raise ValueError("the expected value is not made of the inputs")
        for at in sorted(needed):
            func, args, kwargs, result = recorder.calls[at]
            cast = func.name().split(".")[0].replace("::", ".") in CASTS
            self.steps.append((func, args, kwargs, result, cast))
        self.steps = [self.compiled(*step) for step in self.steps]
        self.steps = [s for s in self.steps if s]

    def own(self, t):
        return t.detach().to(self.work) if t.is_floating_point() else t.detach()

    def compiled(self, func, args, kwargs, result, cast):
        flat = [r._cdata for r in tree_flatten(result)[0] if isinstance(r, torch.Tensor)]
        if cast and args[0].is_floating_point() and result.is_floating_point():
            source = args[0]._cdata  # One value under two names.
            self.values.setdefault(source, None)
            return (None, source, None, flat[0])
        slot = lambda v: ("slot", v._cdata) if isinstance(v, torch.Tensor) else (self.work if v in (torch.float64, torch.float32, torch.bfloat16, torch.float16) and isinstance(v, torch.dtype) else v)
        return (func, tree_map(slot, args), tree_map(slot, kwargs), flat)

    def resolve(self):
        """One run, which also binds the operands: what is left is calls with their tensors in place."""
        values = dict(self.values)
        self.bound = []

        def value(v):
            return values[v[1]] if isinstance(v, tuple) and len(v) == 2 and v[0] == "slot" else v

        def fill(v):
            if isinstance(v, tuple) and len(v) == 2 and v[0] == "slot":
                return value(v)
            if isinstance(v, (list, tuple)):
                return type(v)(fill(x) for x in v)
            return v

        for func, args, kwargs, made in self.steps:
            if func is None:
                values[made] = values[args]
                continue
            args, kwargs = fill(args), {k: fill(v) for k, v in kwargs.items()}
            result = func(*args, **kwargs)
            call = getattr(func, "_op", func)
            self.bound.append((call, args, kwargs))
            for name, t in zip(made, [r for r in tree_flatten(result)[0] if isinstance(r, torch.Tensor)]):
                values[name] = t

    def __call__(self):
        for call, args, kwargs in self.bound:
            call(*args, **kwargs)


def read_tables(names):
    """Cases that must compile, with the inputs and outputs as tensors, and the recorder of what made them."""
    found, recorder = [], Recorder()

    class Case(cases.Case):
        def __init__(self, name):
            super().__init__(name)
            self.values = []

        def input(self, value, *args, **kwargs):
            self.values.append(value)
            return super().input(value, *args, **kwargs)

        def const(self, value, *args, **kwargs):
            self.values.append(value)
            return super().const(value, *args, **kwargs)

    def main(suite):
        found.extend(c for c in suite.cases if c.error is None)
        return 0

    plain = cases.rand

    def rand(*args, **kwargs):
        value = plain(*args, **kwargs)
        recorder.leaves.add(value._cdata)
        return value

    cases.Case, cases.Suite.main, cases.rand = Case, main, rand
    for name in names:
        before = len(found)
        try:
            with recorder:
                runpy.run_path(str(TABLES / f"test_{name}.py"), run_name="__main__")
        except SystemExit:
            pass
        for c in found[before:]:
            c.name = f"{name}.{c.name}"
    return found, recorder


class Timer:
    def __init__(self, program, path, options, environment):
        self.process = subprocess.Popen([program, path, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split(" ", 1)
        if not answer[0]:
            raise SystemExit(f"the program ended with {self.process.wait()} at: {' '.join(map(str, words))}")
        if answer[0] == "failed":
            raise ValueError(answer[1].strip())
        return [float(word) for word in answer[1].split()] if len(answer) > 1 else []


def players(recorder, case):
    """PyTorch's side of a case in each type that it may be played in; the reason where there is none."""
    outputs = [expected for expected, *_ in case.expected.values()]
    kinds = {t.dtype for t in case.values if t.is_floating_point()}
    types = [torch.float32]
    if kinds & {torch.bfloat16, torch.float16}:
        types.append((kinds & {torch.bfloat16, torch.float16}).pop())
    sides, why = [], ""
    for work in types:
        try:
            side = Played(recorder, case.values, outputs, work)
            side.resolve()
            side()
            if side.bound:
                sides.append(side)
        except (ValueError, RuntimeError, NotImplementedError, TypeError, IndexError, KeyError) as error:
            why = str(error).splitlines()[0]
    return sides, why


def clock(call, times):
    start = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - start) / 1e3 / times


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def measure(timer, recorder, found, rounds, budget_us):
    rows = []
    for index, case in enumerate(found):
        row = {"case": case.name}
        rows.append(row)
        try:
            row["compile_ms"], row["compile_cpu_ms"] = timer.ask("compile", index)
            row["first_us"], = timer.ask("launch", index)
        except ValueError as error:
            row["skipped"] = str(error)
            timer.ask("drop", index)
            continue
        sides, row["no_torch"] = players(recorder, case) if rounds else ([], "not asked for")
        count = int(min(200, max(3, budget_us / max(row["first_us"], 1))))
        ours, theirs = [], []
        for _ in range(rounds or 1):
            ours += timer.ask("repeat", index, count)
            for side in sides:
                theirs.append(clock(side, count))
        row["launch_us"] = min(ours)
        if theirs:
            row["torch_us"] = min(theirs)
            del row["no_torch"]
        timer.ask("drop", index)
    return rows


def summary(rows):
    done = [r for r in rows if "compile_ms" in r and "skipped" not in r]
    print(f"{len(rows)} cases, {len(rows) - len(done)} not measured")
    out = {}
    for key, unit in (("compile_ms", "ms"), ("compile_cpu_ms", "ms"), ("first_us", "us"), ("launch_us", "us")):
        values = sorted(r[key] for r in done)
        tenth = values[-max(1, len(values) // 10):]
        out[key] = dict(median=statistics.median(values), p95=percentile(values, 0.95), worst=values[-1], total=sum(values), slowest_tenth=sum(tenth))
        worst = max(done, key=lambda r: r[key])["case"]
        print(f"{key[:-3]:11} median {out[key]['median']:9.2f} {unit}  p95 {out[key]['p95']:9.2f}  worst {values[-1]:9.2f} ({worst})  "
              f"total {sum(values):10.1f}, slowest tenth {sum(tenth):10.1f}")
    beside = [r["launch_us"] / r["torch_us"] for r in done if "torch_us" in r]
    if beside:
        out["ratio"] = dict(cases=len(beside), geomean=math.exp(statistics.fmean(map(math.log, beside))), median=statistics.median(beside), p95=percentile(beside, 0.95), worst=max(beside))
        worst = max((r for r in done if "torch_us" in r), key=lambda r: r["launch_us"] / r["torch_us"])["case"]
        print(f"launch beside PyTorch's CPU, {len(beside)} cases: geomean {out['ratio']['geomean']:.3f}, median {out['ratio']['median']:.3f}, "
              f"p95 {out['ratio']['p95']:.2f}, worst {out['ratio']['worst']:.2f} ({worst})")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="build/bin/synapse_case_timer")
    parser.add_argument("--tables", help="names of tables, test_NAME.py; all of them without it")
    parser.add_argument("--only", help="cases whose name has this in it")
    parser.add_argument("--rounds", type=int, default=3, help="0: PyTorch is left out")
    parser.add_argument("--budget-us", type=float, default=4000, help="about how long a block of launches takes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--eager", action="store_true", help="synGraphCreateEager")
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--output", help="everything, as JSON")
    parser.add_argument("--slowest", type=int, default=0, help="list that many of the slowest, by compilation and by ratio")
    options = parser.parse_args()
    names = options.tables.split(",") if options.tables else sorted(p.stem[5:] for p in TABLES.glob("test_*.py"))
    torch.set_num_threads(options.threads)
    found, recorder = read_tables(names)
    found = [c for c in found if not options.only or options.only in c.name]
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cases.txt")
        with open(path, "w") as file:
            for c in found:
                file.write("\n".join([f"case {c.name}", *c.lines, "end"]) + "\n")
        flags = [f"--target={options.target}", *(["--eager"] if options.eager else [])]
        timer = Timer(options.program, path, flags, {"HPU_CACHE": "", "HPU_NUM_THREADS": str(options.threads)})
        rows = measure(timer, recorder, found, options.rounds, options.budget_us)
        timer.process.stdin.close()
        timer.process.wait()
    out = summary(rows)
    if options.slowest:
        for key in ("compile_ms", "launch_us"):
            for r in sorted((r for r in rows if key in r), key=lambda r: -r[key])[:options.slowest]:
                print(f"  {key} {r[key]:.2f} {r['case']}")
        for r in sorted((r for r in rows if "torch_us" in r), key=lambda r: -r["launch_us"] / r["torch_us"])[:options.slowest]:
            print(f"  ratio {r['launch_us'] / r['torch_us']:.2f} = {r['launch_us']:.1f} / {r['torch_us']:.1f} us {r['case']}")
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"summary": out, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
