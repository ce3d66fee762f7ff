#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one recipe for all sizes costs to compile: beside a recipe of one size, and beside recipes of buckets of sizes.

For each model with free dimensions (tests/models/export_models.py --dynamic-batch --dynamic-seq), in alternating rounds: a
compilation with bounds (--dim NAME=LEAST:MOST) and one with the largest sizes. Ratio = all sizes / one size, of compile_ms. Without
one recipe for all sizes a program would have one for each bucket, powers of two within the bounds: their number, and what they would
take in time and bytes, from compilations of the least and the largest bucket (--all-buckets: of every one). Exit codes: 0 ok, 1 user
error, 2 beyond --gate, 3 a program failed.
"""

import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile

from harness import (ProgramFailed, add_timing_options, chosen_cpus, in_turn, machine, make_parser, measure_each, run_benchmark,
                     run_json)

MB = 1e6
BOUNDS = ["batch=1:8", "seq=1:128"]


def bounds_of(text):
    """("seq", 1, 512) of "seq=1:512"."""
    name, _, sizes = text.rpartition("=")
    least, _, most = sizes.partition(":")
    if not name or not least.isdigit() or not most.isdigit() or not 1 <= int(least) <= int(most):
        raise ValueError(f"--dim {text} is not NAME=LEAST:MOST")
    return name, int(least), int(most)


def buckets(least, most):
    """The upper ends of buckets that are powers of two: 1, 2, 4 ... and the largest size."""
    ends = [1 << power for power in range(most.bit_length()) if least <= 1 << power < most]
    return ends + [most]


def free_dims(folder):
    """The free dimensions that the export names; none without export.json."""
    try:
        with open(os.path.join(folder, "export.json"), encoding="utf-8") as file:
            return json.load(file)["free_dims"]
    except (OSError, ValueError, KeyError):
        return []


def compile_model(model, dims, args, cpus, work):
    """(ms, bytes) of hpu-compile with these values of --dim."""
    options = [option for name, value in dims for option in ("--dim", f"{name}={value}")]
    found = run_json([os.path.join(args.build, "bin", "hpu-compile"), model, "-o", os.path.join(work, "m.recipe"), "--json",
                      "--target", args.target, *options, *args.hpu_option], cpus, args.timeout)
    return found["compile_ms"], found["recipe_bytes"]


def measure(model, folder, args, cpus, work):
    bounds = [bound for bound in map(bounds_of, args.dim or BOUNDS) if bound[0] in free_dims(folder)]
    if not bounds:
        raise ProgramFailed(f"{model} has none of the dimensions of --dim (it has: {', '.join(free_dims(folder)) or 'none'})")
    late = [(name, f"{least}:{most}") for name, least, most in bounds]
    largest = [(name, most) for name, _, most in bounds]
    result = {"bounds": dict(late), "rounds": []}
    for index in range(args.rounds):
        found = {}
        for kind in in_turn(index, "late", "one"):
            found[kind] = compile_model(model, late if kind == "late" else largest, args, cpus, work)
        result["rounds"].append({"late_ms": found["late"][0], "one_ms": found["one"][0],
                                 "ratio": found["late"][0] / found["one"][0]})
        result["late_bytes"], result["one_bytes"] = found["late"][1], found["one"][1]
    ratios = [each["ratio"] for each in result["rounds"]]
    result["ratio"] = {"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)}
    ends = [[(name, size) for size in buckets(least, most)] for name, least, most in bounds]
    every = list(itertools.product(*ends))
    tried = every if args.all_buckets else [every[0], every[-1]]
    costs = [compile_model(model, sizes, args, cpus, work) for sizes in tried]
    result["buckets"] = {"count": len(every), "measured": len(tried)}
    for key, values in (("ms", [cost[0] for cost in costs]), ("bytes", [cost[1] for cost in costs])):
        result["buckets"][key] = statistics.mean(values) * len(every)
    return result


def parse(argv):
    parser = make_parser(__doc__)
    add_timing_options(parser)
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--dim", action="append", metavar="NAME=LEAST:MOST",
                        help=f"bounds of a dimension, where a model has it (default: {', '.join(BOUNDS)})")
    parser.add_argument("--all-buckets", action="store_true", help="compile every bucket, not the least and the largest")
    parser.add_argument("--gate", type=float, metavar="RATIO", help="exit 2 when a median ratio is above this")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        for text in args.dim or []:
            bounds_of(text)
    except ValueError as error:
        parser.error(str(error))
    return args


def table(report, _args):
    lines = [f"{report['machine']['cpu']}, CPUs {report['cpus']}; medians of {report['rounds']} rounds; ratio = all sizes / one size",
             f"{'model':28} {'bounds':22} {'one ms':>7} {'all ms':>7} {'ratio':>6} {'max':>5} {'one MB':>7} {'all MB':>7} "
             f"{'buckets':>7} {'ms':>8} {'MB':>7}"]
    for name, result in report["models"].items():
        if "error" in result:
            lines.append(f"{name:28} FAILED {result['error']}")
            continue
        middle = {key: statistics.median(each[key] for each in result["rounds"]) for key in ("late_ms", "one_ms")}
        bounds = ", ".join(f"{dim} {sizes}" for dim, sizes in result["bounds"].items())
        many = result["buckets"]
        lines.append(f"{name:28} {bounds:22} {middle['one_ms']:7.0f} {middle['late_ms']:7.0f} {result['ratio']['median']:6.2f} "
                     f"{result['ratio']['max']:5.2f} {result['one_bytes'] / MB:7.1f} {result['late_bytes'] / MB:7.1f} "
                     f"{many['count']:7} {many['ms']:8.0f} {many['bytes'] / MB:7.0f}")
    return "\n".join(lines)


def make_report(args, models):
    cpus = chosen_cpus(args)
    report = {"machine": machine(), "cpus": sorted(cpus), "rounds": args.rounds, "models": {}}

    def one(model, folder):
        work = tempfile.mkdtemp(prefix="hpu-late-sizes-time-")
        try:
            return measure(model, folder, args, cpus, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    measure_each([entry for entry in models if free_dims(entry[2])], report, one)
    return report


def beyond(report, args):
    if not args.gate:
        return []
    return [f"{name}: median ratio {result['ratio']['median']:.2f}, above {args.gate:g}"
            for name, result in report["models"].items() if "error" not in result and result["ratio"]["median"] > args.gate]


def main(argv=None):
    return run_benchmark(argv, parse, False, make_report, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
