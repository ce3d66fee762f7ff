#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps and inferences of whole networks on hpu beside PyTorch's CPU: wall clock, and the device's modelled time.

The networks of tests/pytorch/nets.py in larger sizes, in each mode of hpu. A round times --steps of them on the CPU (with --threads), then
on hpu, until all is done; even rounds begin with the CPU. The ratio is CPU / hpu, above 1 hpu is faster. "host" is the part of hpu's
time until the program may go on, with the device idle before. Compilation is not in it: steps run before. In mode "compiled" the module and the
optimiser are compiled (hpu_torch.compile). --details N adds, by operation, what takes most of the device's time (hpu-trace); --modules N, by module,
what does in training steps in lazy and compiled mode. Exit codes: 0 ok, 1 user error, 2 a ratio below --gate, 3 a program failed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from harness import HERE, ProgramFailed, in_turn, machine

ROOT = os.path.join(HERE, "..")
BURST = 100


def networks(nets, torch):
    """By name."""
    nn = torch.nn
    Net = nets.Net

    def pixels(g):
        return torch.randn(2, 3, 64, 64, generator=g), torch.randint(2, (2, 64, 64), generator=g)

    return {
        "mlp": Net(lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
                   lambda g: (torch.randn(64, 784, generator=g), torch.randint(10, (64,), generator=g))),
        "convolutions": Net(lambda: nets.convolutions(16, 10), nets.images(32, 10, 16)),
        "resnet18": Net(nets.resnet18, nets.images(64, 10, 8)),
        "encoder": Net(lambda: nets.Encoder(1000, 128, 4, 2), nets.words(1000, 8, 64)),
        "lstm": Net(lambda: nets.Recurrent(inputs=64, width=64, num_layers=2), nets.sequences(8, 16, 64)),
        "decoder": Net(lambda: nets.Decoder(1000, 128, 4, 4), nets.words(1000, 4, 64)),
        "unet": Net(lambda: nets.UNet(16), pixels, nets.segment),
    }


class Run:
    """A network on a device: train() and infer() are one step each, without waiting for it."""

    def __init__(self, net, device, mode, tools):
        self.torch, self.nets, self.hpu_torch = tools
        self.net, self.result = net, None
        self.torch.manual_seed(0)
        module = net.make().to(device)
        self.optimiser = self.torch.optim.AdamW(module.parameters(), lr=1e-4)
        self.module = module if device == "cpu" else self.nets.in_mode(mode, module)
        if device != "cpu":
            self.nets.in_mode(mode, self.optimiser)
        self.batch = [t.to(device) for t in net.batch(self.torch.Generator().manual_seed(1))]
        self.mark = (lambda: None) if device == "cpu" else self.hpu_torch.core.mark_step
        self.wait = (lambda: None) if device == "cpu" else self.torch.hpu.synchronize

    def train(self):
        self.optimiser.zero_grad(set_to_none=True)
        self.net.loss(self.module, *self.batch).backward()
        self.optimiser.step()
        self.mark()

    def infer(self):
        with self.torch.inference_mode():
            self.result = self.module(*self.batch[:self.net.inputs])  # Kept, else there is nothing to compute in lazy mode.
        self.mark()

    def prepare(self, work):
        self.module.train(work == "train")
        for _ in range(3):
            getattr(self, work)()
        self.wait()

    def timed(self, work, steps):
        """Seconds of a step."""
        step = getattr(self, work)
        start = time.perf_counter()
        for _ in range(steps):
            step()
        self.wait()
        return (time.perf_counter() - start) / steps

    def host(self, work):
        step = getattr(self, work)
        start = time.perf_counter()
        step()
        took = time.perf_counter() - start
        self.wait()
        return took

    def device(self, work):
        """Milliseconds of the device's modelled time."""
        start, end = (self.torch.hpu.Event(enable_timing=True) for _ in range(2))
        start.record()
        getattr(self, work)()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def modules(self, steps=2):
        """Shares of the device's modelled time in training steps, by module, the largest first."""
        with self.hpu_torch.profiler.profile(schedule=self.hpu_torch.profiler.schedule(wait=0, warmup=2, active=steps)) as profiler:
            for _ in range(2 + steps):
                self.train()
                self.wait()
                profiler.step()
        by_module = profiler.device_time_by_module()
        total = sum(by_module.values())
        return {name: us / total for name, us in by_module.items()}


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def measure(net, mode, work, args, tools):
    tools[1].set_mode(mode)
    here, there = (Run(net, device, mode, tools) for device in ("cpu", "hpu"))
    for run in (here, there):
        run.prepare(work)
    seconds = {"cpu": [], "hpu": []}
    for number in range(args.rounds):
        for name, run in in_turn(number, ("cpu", here), ("hpu", there)):
            seconds[name].append(run.timed(work, args.steps))
    host = [there.host(work) for _ in range(args.steps)]
    tools[2].metrics.reset()
    device = there.device(work)
    counts = tools[2].metrics.counts()
    return {"ms": {name: spread([1e3 * s for s in values]) for name, values in seconds.items()},
            "ratio": spread([a / b for a, b in zip(seconds["cpu"], seconds["hpu"])]), "host_ms": 1e3 * statistics.median(host), "device_ms": device,
            "ops": counts["nodes"], "graphs": counts["graphs"]}


CALLS = {"add": lambda torch, a, b: torch.add(a, b), "mul": lambda torch, a, b: torch.mul(a, b), "mm": lambda torch, a, b: torch.mm(a, b)}


def overhead(args, tools):
    """Microseconds of a call on 16 elements, until the program may go on."""
    torch, nets, _ = tools
    nets.set_mode("eager")
    operands = {device: [torch.randn(4, 4).to(device) for _ in range(2)] for device in ("cpu", "hpu")}
    found = {}
    for name, call in CALLS.items():
        times = {"cpu": [], "hpu": []}
        for number in range(20 * args.rounds + 1):
            for device in in_turn(number, "cpu", "hpu"):
                start = time.perf_counter()
                for _ in range(BURST):
                    call(torch, *operands[device])
                times[device].append((time.perf_counter() - start) / BURST * 1e6)
                torch.hpu.synchronize()
        found[name] = {device: spread(values[1:]) for device, values in times.items()}
    return found


def details(name, args):
    """What takes most of the device's time in training steps in lazy mode, by operation."""
    with tempfile.TemporaryDirectory(prefix="hpu-benchmark-") as folder:
        trace = os.path.join(folder, "run.hputrace")
        recording = dict(os.environ, HPU_TRACE=trace, HPU_TRACE_LEVEL="node", HPU_NODE=f"details-{os.getpid()}")
        for environment, command in (
            (recording, [sys.executable, os.path.abspath(__file__), name, "--modes", "lazy", "--rounds", "1", "--steps", "2", "--only", "train", "--build", args.build]),
            (None, [os.path.join(args.build, "bin", "hpu-trace"), "top", "--group-by", "kind", "--json", trace])):
            result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if result.returncode != 0:
                raise ProgramFailed(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()[-300:]}")
    return [{key: row[key] for key in ("name", "engine", "count", "total_us", "share", "bound_by")} for row in json.loads(result.stdout)["top"][:args.details]]


def modules(net, args, tools):
    """What takes most of the device's time in training steps, by module, in each of the modes that make graphs of them."""
    found = {}
    for mode in args.modes or tools[1].MODES:
        if mode != "eager":
            tools[1].set_mode(mode)
            run = Run(net, "hpu", mode, tools)
            run.prepare("train")
            found[mode] = dict(list(run.modules().items())[:args.modules])
    return found


def table(report):
    lines = [f"{report['machine']['cpu']}, {report['threads']} threads, {report['rounds']} rounds of {report['steps']} steps; ratio = CPU / hpu's time",
             f"{'network':13} {'work':6} {'mode':8} {'CPU ms':>8} {'hpu ms':>8} {'min':>5} {'ratio':>6} {'max':>5} {'host ms':>8} {'device ms':>10} {'ops':>5} {'graphs':>6}"]
    for name, works in report["networks"].items():
        for work, modes in works.items():
            for mode, r in modes.items():
                lines.append(f"{name:13} {work:6} {mode:8} {r['ms']['cpu']['median']:8.2f} {r['ms']['hpu']['median']:8.2f} {r['ratio']['min']:5.2f} {r['ratio']['median']:6.2f} "
                             f"{r['ratio']['max']:5.2f} {r['host_ms']:8.2f} {r['device_ms']:10.3f} {r['ops']:5} {r['graphs']:6}")
    for name, rows in report["details"].items():
        lines += [f"{name}: {row['share']:6.1%} {row['engine']:8} {row['name']}, by {row['bound_by']}" for row in rows]
    for name, modes in report["modules"].items():
        lines += [f"{name}, {mode}: {share:6.1%} {module}" for mode, shares in modes.items() for module, share in shares.items()]
    for key, ratio in report["geomean"].items():
        lines.append(f"geomean {key}: {ratio:.2f}")
    for name, r in report["overhead_us"].items():
        lines.append(f"{name} on 16 elements, eager: CPU {r['cpu']['median']:.1f} us, hpu {r['hpu']['median']:.1f} us")
    return "\n".join(lines)


def geomeans(report):
    ratios = {}
    for works in report["networks"].values():
        for work, modes in works.items():
            for mode, result in modes.items():
                ratios.setdefault(f"{work} {mode}", []).append(result["ratio"]["median"])
    return {key: math.exp(statistics.fmean(map(math.log, values))) for key, values in ratios.items()}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", help="networks (default: all)")
    parser.add_argument("--modes", nargs="+", help="of hpu (default: all)")
    parser.add_argument("--only", choices=["train", "infer"], help="one of the two")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--details", type=int, default=0, metavar="N", help="of the operations that take most of the device's time")
    parser.add_argument("--modules", type=int, default=0, metavar="N", help="of the modules that do in training steps, in lazy and compiled mode")
    parser.add_argument("--gate", type=float, help="exit 2 when a geomean is below this")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build tree")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    return parser.parse_args(argv)


def main(argv=None):
    try:
        args = parse(argv)
    except SystemExit as stop:  # argparse exits with 2, which means a regression here
        return 1 if stop.code else 0
    args.build = os.path.abspath(args.build)
    sys.path[:0] = [os.path.join(args.build, "python"), os.path.join(ROOT, "tests", "pytorch")]
    import torch  # pylint: disable=import-outside-toplevel
    import hpu_torch  # pylint: disable=import-outside-toplevel
    import nets  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(args.threads)
    tools = torch, nets, hpu_torch
    known = networks(nets, torch)
    unknown = (set(args.nets) - set(known)) | (set(args.modes or []) - set(nets.MODES))
    if unknown:
        print(f"error: {', '.join(sorted(unknown))}: not one of {', '.join(known)}, nor a mode ({', '.join(nets.MODES)})", file=sys.stderr)
        return 1
    report = {"machine": machine(), "threads": args.threads, "wait_policy": os.environ.get("OMP_WAIT_POLICY", ""), "rounds": args.rounds, "steps": args.steps, "networks": {}, "details": {}, "modules": {}}
    report["overhead_us"] = overhead(args, tools)  # First: nothing of other work is left in the background.
    try:
        for name in args.nets or known:
            print(f"{name} ...", file=sys.stderr)
            report["networks"][name] = {work: {mode: measure(known[name], mode, work, args, tools) for mode in args.modes or nets.MODES}
                                        for work in ("train", "infer") if args.only in (None, work)}
            if args.details:
                report["details"][name] = details(name, args)
            if args.modules:
                report["modules"][name] = modules(known[name], args, tools)
    except ProgramFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    report["geomean"] = geomeans(report)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    print(table(report))
    slow = [f"{key}: {ratio:.2f}, below {args.gate}" for key, ratio in report["geomean"].items() if args.gate and ratio < args.gate]
    for line in slow:
        print(f"error: {line}", file=sys.stderr)
    return 2 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
