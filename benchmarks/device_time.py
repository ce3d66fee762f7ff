#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Modelled device time of models: -O2 against a lower bound and against -O0, and where the rest goes.

Each model is compiled (never run) once per precision and optimisation level; device time, bound and the
critical path's terms come from `hpu-compile --json`, so the numbers are the same on every machine. The
bound is the most that one of MME, TPC and HBM must do for the unfused graph at its peak
(docs/performance-model.md). Exit codes: 0 ok, 1 user error, 2 a geometric mean above --gate, 3 a program
failed.
"""

import concurrent.futures
import json
import math
import os
import re
import sys
import tempfile

from harness import GateError, ProgramFailed, make_parser, run_benchmark, run_json

ENGINES = ("mme", "tpc", "dma")


def batch_of(folder):
    """From export.json, or from a name such as resnet50-opset17-b8; otherwise 1."""
    try:
        with open(os.path.join(folder, "export.json"), encoding="utf-8") as file:
            batch = json.load(file)["sizes"]["batch"]
        if isinstance(batch, int):
            return batch
    except (OSError, ValueError, KeyError, TypeError):
        pass
    match = re.search(r"-b(\d+)(?:s\d+)?(?:$|-)", os.path.basename(os.path.abspath(folder)))
    return int(match.group(1)) if match else 1


def compile_model(model, precision, level, args):
    """hpu-compile's JSON for one model."""
    with tempfile.TemporaryDirectory(prefix="hpu-device-time-") as folder:
        command = [os.path.join(args.build, "bin", "hpu-compile"), model, "-o",
                   os.path.join(folder, "m.recipe"), "--target", args.target, "--precision", precision,
                   f"-O{level}", "--json", *args.compile_option]
        return run_json(command, None, args.timeout)


def path_terms(compiled):
    """The critical path's time by reason ("tpc ports", or "tpc work" for what an engine takes at its
    peak), the largest first; it adds up to the device time."""
    path = dict(compiled["critical_path_us"])
    reasons = {"gaps": path.pop("gaps", 0.0)}
    for engine, terms in path.items():
        for term, time in terms.items():
            reasons[f"{engine} {'work' if term == 'ideal' else term}"] = time
    return {reason: time for reason, time in sorted(reasons.items(), key=lambda item: -item[1]) if time > 0}


def bounding_busy(compiled, bounding):
    """Busy share of the engine that bounds the model; of HBM the bytes moved at its pin rate."""
    if bounding != "hbm":
        return compiled["engines"][bounding]["busy_percent"]
    moved = sum(e["hbm_bytes"] for e in compiled["engines"].values() if e)
    needed = compiled["lower_bound_bytes"]
    return 100 * compiled["lower_bound_parts_us"]["hbm"] * moved / max(needed, 1) / compiled["device_time_us"]


def measure(model, precision, args):
    """One row of the table."""
    best = compile_model(model, precision, args.level, args)
    parts = best["lower_bound_parts_us"]
    bounding = max(parts, key=parts.get)
    row = {"device_time_us": best["device_time_us"], "lower_bound_us": best["lower_bound_us"],
           "lower_bound_parts_us": parts, "bounded_by": bounding,
           "over_bound": best["device_time_us"] / max(best["lower_bound_us"], 1e-9),
           "busy_percent": {e: best["engines"][e]["busy_percent"] for e in ENGINES if best["engines"].get(e)},
           "bounding_busy_percent": bounding_busy(best, bounding),
           # What a better overlap of the same slices cannot go below.
           "busiest_over_bound": max(e["busy_percent"] for e in best["engines"].values() if e) / 100
                                 * best["device_time_us"] / max(best["lower_bound_us"], 1e-9),
           "engines": best["engines"], "critical_path_us": path_terms(best), "slowest_ops": best["slowest_ops"],
           "workspace_bytes": best["workspace_bytes"],
           "largest_live_set_bytes": best["largest_live_set_bytes"]}
    if not args.no_o0:
        row["o0_device_time_us"] = compile_model(model, precision, 0, args)["device_time_us"]
        row["o0_over_o2"] = row["o0_device_time_us"] / row["device_time_us"]
    return row


def geomean(values):
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def summarise(rows):
    """Geometric means by batch and precision."""
    means = []
    for batch, precision in sorted({(r["batch"], r["precision"]) for r in rows if "error" not in r}):
        group = [r for r in rows
                 if "error" not in r and (r["batch"], r["precision"]) == (batch, precision)]
        means.append({"batch": batch, "precision": precision, "models": len(group),
                      "over_bound": geomean(r["over_bound"] for r in group),
                      "busiest_over_bound": geomean(r["busiest_over_bound"] for r in group),
                      "o0_over_o2": geomean(r["o0_over_o2"] for r in group if "o0_over_o2" in r)})
    return means


def reasons_text(row, most=5):
    whole = row["device_time_us"]
    return ", ".join(f"{reason} {100 * time / whole:.0f}%"
                     for reason, time in list(row["critical_path_us"].items())[:most])


def table(report, args):
    lines = ["| model | batch | type | -O2 us | bound us | by | -O2/bound | -O0/-O2 | busy % mme/tpc/dma | "
             "critical path |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in report["rows"]:
        head = f"| {row['model']} | {row['batch']} | {row['precision']} |"
        if "error" in row:
            lines.append(f"{head} FAILED: {row['error']} | | | | | | |")
            continue
        busy = "/".join(f"{row['busy_percent'].get(e, 0):.0f}" for e in ENGINES)
        speedup = f"{row['o0_over_o2']:.2f}" if "o0_over_o2" in row else "-"
        lines.append(f"{head} {row['device_time_us']:.1f} | {row['lower_bound_us']:.1f} | "
                     f"{row['bounded_by']} | {row['over_bound']:.2f} | {speedup} | {busy} | "
                     f"{reasons_text(row)} |")
    lines.append("")
    for mean in report["geomeans"]:
        speedup = f"{mean['o0_over_o2']:.2f}" if mean["o0_over_o2"] else "-"
        lines.append(f"geometric means, batch {mean['batch']}, {mean['precision']}, {mean['models']} models: "
                     f"-O2/bound {mean['over_bound']:.3f} (the busiest engine alone "
                     f"{mean['busiest_over_bound']:.3f}), -O0/-O2 {speedup}")
    return "\n".join(lines) + (details(report, args.details) if args.details else "")


def details(report, most):
    """The ops that the critical path spends most on, by model."""
    lines = [""]
    for row in report["rows"]:
        if "error" in row:
            continue
        parts = row["lower_bound_parts_us"]
        lines += ["", f"{row['model']}, batch {row['batch']}, {row['precision']}: "
                      f"{row['device_time_us']:.1f} us; bound mme {parts['mme']:.1f}, tpc {parts['tpc']:.1f}, "
                      f"hbm {parts['hbm']:.1f} us",
                  "", "| critical us | busy us | engine | slices | ideal % | main losses | op |",
                  "|---|---|---|---|---|---|---|"]
        for op in row["slowest_ops"][:most]:
            terms = dict(op["terms_us"])
            whole = max(sum(terms.values()), 1e-9)
            ideal = terms.pop("ideal")
            losses = sorted(terms.items(), key=lambda item: -item[1])[:3]
            lines.append(f"| {op['critical_us']:.1f} | {op['busy_us']:.1f} | {op['engine']} | {op['slices']} | "
                         f"{100 * ideal / whole:.0f} | "
                         f"{', '.join(f'{t} {100 * v / whole:.0f}%' for t, v in losses if v > 0)} | "
                         f"{op['name']} |")
    return "\n".join(lines)


def parse(argv):
    parser = make_parser(__doc__)
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--precision", default="f32,bf16", help="one or several, with commas")
    parser.add_argument("--level", type=int, default=2, help="optimisation level that is measured")
    parser.add_argument("--no-o0", action="store_true", help="do not compile with -O0 for comparison")
    parser.add_argument("--compile-option", action="append", default=[],
                        help="another argument of hpu-compile, such as --compile-option=--dim=seq=128")
    parser.add_argument("--jobs", type=int, default=1, help="models that are compiled at a time")
    parser.add_argument("--details", type=int, default=0, metavar="N",
                        help="also list the N ops of each model that the critical path spends most on")
    parser.add_argument("--gate", type=float,
                        help="exit 2 when a geometric mean of -O2/bound is above this")
    parser.add_argument("--gate-batch", type=int, help="gate models of this batch only")
    parser.add_argument("--busy-gate", type=float, metavar="PERCENT",
                        help="exit 2 when the engine that bounds a model is busy less than this")
    args = parser.parse_args(argv)
    args.precision = [p for p in args.precision.split(",") if p]
    if not args.precision or args.jobs < 1:
        parser.error("--precision and --jobs must name at least one")
    return args


def make_report(args, models):
    entries = [(name, model, batch_of(folder)) for name, model, folder in models]
    work = [(name, model, batch, precision) for precision in args.precision
            for name, model, batch in sorted(entries, key=lambda entry: (entry[2], entry[0]))]

    def one(item):
        name, model, batch, precision = item
        row = {"model": name, "batch": batch, "precision": precision}
        try:
            row.update(measure(model, precision, args))
        except ProgramFailed as error:
            row["error"] = str(error)
        print(f"{name} {precision}", file=sys.stderr)
        return row

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(one, work))
    return {"target": args.target, "level": args.level, "rows": rows, "geomeans": summarise(rows)}


def beyond(report, args):
    gated = [mean for mean in report["geomeans"] if args.gate_batch in (None, mean["batch"])]
    if args.gate and not gated:
        raise GateError(f"no model of batch {args.gate_batch} to gate")
    lines = [f"batch {mean['batch']}, {mean['precision']}: geometric mean of -O2/bound "
             f"{mean['over_bound']:.3f} is above {args.gate}"
             for mean in gated if args.gate and mean["over_bound"] > args.gate]
    lines += [f"{row['model']}, {row['precision']}: {row['bounded_by']} bounds it and is busy "
              f"{row['bounding_busy_percent']:.1f} %, below {args.busy_gate} %"
              for row in report["rows"]
              if args.busy_gate and args.gate_batch in (None, row["batch"])
              and row["bounding_busy_percent"] < args.busy_gate]
    return lines


def main(argv=None):
    return run_benchmark(argv, parse, False, make_report, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
