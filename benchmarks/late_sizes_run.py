#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a launch of one recipe for all sizes takes, beside recipes that were compiled for its sizes.

The networks and bounds of tests/models/nets_late.py, exported with PyTorch. For each of --shapes sizes: modelled device time, and host
latency (median of --iters runs after --warmup, in alternating rounds on the same cores), each as the ratio all sizes / these sizes
alone. The first sizes are the least and the greatest; the others are drawn. Exit codes: 0 ok, 1 user error, 2 a geometric mean
above --gate-device or --gate-host, 3 a program failed.
"""

import argparse
import os
import random
import statistics
import sys

from harness import HERE, in_turn, run_json, run_networks

ROOT = os.path.join(HERE, "..")


def geomean(values):
    return statistics.geometric_mean(values)


class Runner:
    """Compiles and runs the model of one network with the options of the benchmark."""

    def __init__(self, args, model, work):
        self.args, self.model, self.work = args, model, work

    def tool(self, name, *arguments):
        return run_json([os.path.join(self.args.build, "bin", name), *arguments, "--json"], self.args.cpus, self.args.timeout)

    def compile(self, name, dims):
        recipe = os.path.join(self.work, name + ".recipe")
        options = [option for dim, value in dims.items() for option in ("--dim", f"{dim}={value}")]
        self.tool("hpu-compile", self.model, "-o", recipe, "--target", self.args.target, "--cpu", "native", *options)
        return recipe

    def run(self, recipe, inputs):
        result = self.tool("hpu-run", recipe, "--iters", str(self.args.iters), "--warmup", str(self.args.warmup), "--threads",
                           str(len(self.args.cpus)), *(option for name, file in inputs.items() for option in ("--input", f"{name}=@{file}")))
        return result["device_time_us"], result["host_latency_ms"]["p50"]


def measure(name, args, work):
    sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "tests", "models")]
    import numpy  # pylint: disable=import-outside-toplevel
    import nets_late  # pylint: disable=import-outside-toplevel
    import one_recipe  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    net, model = nets_late.NETS[name], os.path.join(work, name + ".onnx")
    one_recipe.export(name, nets_late.build(name), model)
    runner = Runner(args, model, work)
    late, rows = runner.compile(name, {dim: f"{least}:{most}" for dim, (least, most) in net.bounds.items()}), []
    for sizes in one_recipe.drawn_sizes(net, args.shapes, random.Random(args.seed)):
        inputs = {}
        for key, value in nets_late.example(name, sizes, torch.Generator().manual_seed(args.seed)).items():
            inputs[key] = os.path.join(work, key + ".npy")
            numpy.save(inputs[key], value.numpy())
        alone, host, device = runner.compile("alone", sizes), {"late": [], "alone": []}, {}
        recipes = {"late": late, "alone": alone}
        for number in range(args.rounds):
            for which in in_turn(number, "late", "alone"):
                device[which], latency = runner.run(recipes[which], inputs)
                host[which].append(latency)
        rows.append({"sizes": sizes, "device_us": device, "host_ms": host,
                     "device_ratio": device["late"] / device["alone"],
                     "host_ratio": statistics.median(a / b for a, b in zip(host["late"], host["alone"]))})
        print(f"  {sizes}: device {rows[-1]['device_ratio']:.3f}, host {rows[-1]['host_ratio']:.2f}", file=sys.stderr)
    return rows


def table(report):
    lines = [f"{report['machine']['cpu']}, CPUs {report['cpus']}, {report['target']}, {report['shapes']} sizes a network; ratio = recipe "
             "for all sizes / recipe of these sizes; device time is the model's",
             f"{'network':10} {'device':>7} {'worst':>6} {'host':>7} {'worst':>6}"]
    for name, rows in report["networks"].items():
        device, host = ([row[key] for row in rows] for key in ("device_ratio", "host_ratio"))
        lines.append(f"{name:10} {geomean(device):7.3f} {max(device):6.2f} {geomean(host):7.3f} {max(host):6.2f}")
    return "\n".join(lines)


def beyond(report, args):
    gates = (("device", "device_ratio", args.gate_device), ("host", "host_ratio", args.gate_host))
    means = [(name, what, geomean([row[key] for row in rows]), gate)
             for name, rows in report["networks"].items() for what, key, gate in gates if gate]
    return [f"{name}: {what} times {mean:.3f} times those of recipes of one size" for name, what, mean, gate in means if mean > gate]


def settings(args):
    return {"target": args.target, "shapes": args.shapes, "rounds": args.rounds, "iters": args.iters}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="+", help="of tests/models/nets_late.py")
    parser.add_argument("--shapes", type=int, default=20, help="sizes of each network")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--gate-device", type=float, help="exit 2 when a network's geometric mean of device times is above this")
    parser.add_argument("--gate-host", type=float, help="exit 2 when one of host latencies is above this")
    return run_networks(argv, parser, settings, measure, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
