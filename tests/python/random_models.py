#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random ONNX models, runs hpu-verify on them, and shrinks those that fail.

Everything about a model comes from its seed: ops, shapes (ranks 0 to 8), numbers, opset, target,
optimisation level and (unless it is given) precision. PyTorch computes what is expected, in float64. Nodes whose result
would be mostly rounding error are not made. A failing model is cut down to the fewest nodes that
still fail in the same way, and left in a folder with the command that shows it.

Exit codes: 0 ok, 1 user error, 2 a result is wrong, 3 the tool failed.
"""

import dataclasses
import os
import random
import shutil
import sys
import tempfile

import torch

import model_runs  # first: it makes tests/models importable
import random_ops_compute
import random_ops_movement
from random_graph import MAX_RANK, Builder, Rejected

OPS = {**random_ops_compute.OPS, **random_ops_movement.OPS}
# How often an input has each rank, and the sizes that its dims have.
RANK_WEIGHTS = (3, 5, 14, 16, 20, 6, 4, 4, 4)
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 33)
SMALL_SIZES = (1, 1, 2, 2, 3, 4)  # of tensors of rank 5 and more
# The distance of numbers near one, of the type that products read.
SPACING = {"bf16": 2.0**-7, "f16": 2.0**-10, "fp8": 2.0**-3, "fp8_e5m2": 2.0**-2}
# What a narrow type may turn into another number altogether, so that such models run in f32 only.
DISCONTINUOUS = {"Greater", "Less", "GreaterOrEqual", "ArgMax", "ArgMin", "ThresholdedRelu"}
MAX_SHRINK_RUNS = 80


@dataclasses.dataclass
class Model:
    seed: int
    graph: object
    flags: list


def draw_inputs(builder):
    for _ in range(builder.rng.randint(1, 3)):
        rank = builder.rng.choices(range(MAX_RANK + 1), RANK_WEIGHTS)[0]
        sizes = SIZES if rank < 5 else SMALL_SIZES
        builder.input(builder.uniform(*(builder.rng.choice(sizes) for _ in range(rank))))


def draw_outputs(builder):
    """What nothing reads, sometimes what something reads, rarely an input."""
    rng, nodes = builder.rng, builder.graph.nodes
    read = {name for node in nodes for name in node.inputs}
    made = [name for node in nodes for name in node.outputs]
    outputs = [name for name in made if name not in read]
    others = [name for name in made if name in read]
    if others and rng.random() < 0.5:
        outputs += rng.sample(others, min(2, len(others)))
    if rng.random() < 0.1:
        outputs.append(rng.choice(list(builder.graph.inputs)))
    return outputs


def draw_flags(rng, graph, amplification, precision):
    targets = model_runs.TARGETS if precision in (None, "bf16") else model_runs.TARGETS[1:]
    flags = ["--cpu", "native", "--target", rng.choice(targets), f"-O{rng.choice((0, 1, 2, 2, 3))}"]
    if precision or rng.random() < 0.2 and not any(node.op in DISCONTINUOUS for node in graph.nodes):
        precision = precision or "bf16"
        # What the graph makes of a rounding was measured on it.
        atol = max(2.5, amplification) * SPACING[precision]
        flags += ["--precision", precision, "--rtol", f"{6 * SPACING[precision]:.4g}", "--atol", f"{atol:.4g}"]
    return flags


def generate(seed, ops, precision=None):
    """The model of a seed, of the ops (names of OPS) that are asked for."""
    rng = random.Random(seed)
    builder = Builder(rng.getrandbits(32), rng.choice((13, 17)))
    names = [name for name in ops for _ in range(OPS[name][1])]
    wanted = rng.choice((2, 4, 7, 14, 25))
    draw_inputs(builder)
    for _ in range(20 * wanted):
        if len(builder.graph.nodes) >= wanted:
            break
        try:
            OPS[rng.choice(names)][0](builder)
        except Rejected:
            continue
    if not builder.graph.nodes:  # nothing suits these inputs
        return generate(seed + (1 << 32), ops, precision)
    keep_unused = builder.rng.random() < 0.05
    graph = builder.graph.with_outputs(draw_outputs(builder))
    if keep_unused:
        graph.inputs = dict(builder.graph.inputs)
    return Model(seed, graph, draw_flags(rng, graph, builder.amplification, precision))


def smaller_graphs(graph):
    """Graphs with less in them, the smallest first; each is a step that shrinking may take."""
    if len(graph.outputs) > 1:
        yield from (graph.with_outputs([name]) for name in graph.outputs)
    for node in graph.nodes[:-1]:  # an earlier value, with all that leads to it
        yield from (graph.with_outputs([name]) for name in node.outputs)
    count = len(graph.nodes)
    tails = sorted({1, 2, 4, 8, count // 2, 3 * count // 4} & set(range(1, count)))
    yield from (graph.cut(graph.nodes[:-kept]) for kept in tails)
    if count > 1:
        yield from (graph.cut([node]) for node in graph.nodes)


def shrink(graph, fails, runs=MAX_SHRINK_RUNS):
    """The smallest graph found within so many calls of `fails`, which tells whether it still does."""
    progress = True
    while progress:
        progress = False
        for candidate in smaller_graphs(graph):
            size = (len(candidate.nodes), len(candidate.outputs))
            if not candidate.inputs or size >= (len(graph.nodes), len(graph.outputs)):
                continue
            if runs == 0:
                return graph
            runs -= 1
            if fails(candidate):
                graph, progress = candidate, True
                break
    return graph


class Runner:
    """Runs models in a scratch folder and keeps those that fail."""

    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch

    def run(self, graph, flags):
        folder = os.path.join(self.scratch, "model")
        shutil.rmtree(folder, ignore_errors=True)
        model, data = graph.save(folder)
        return model_runs.hpu_verify(self.args.build, model, data, flags, self.scratch,
                                     self.args.timeout)

    def keep(self, model, outcome):
        """Shrinks the model and writes it; returns its folder."""
        def fails(graph):
            return self.run(graph, model.flags).kind == outcome.kind

        graph = shrink(model.graph, fails)
        folder = os.path.join(self.args.keep, f"seed_{model.seed}")
        shutil.rmtree(folder, ignore_errors=True)
        graph.save(folder)
        with open(os.path.join(folder, "command.txt"), "w", encoding="utf-8") as file:
            file.write(f"hpu-verify model.onnx --data test_data_set_0 {' '.join(model.flags)}\n")
        ops = ", ".join(node.op for node in graph.nodes) or "no nodes"
        print(f"      {folder}: {ops}", flush=True)


def parse(argv):
    parser = model_runs.formatted_parser(__doc__)
    model_runs.add_arguments(parser)
    parser.add_argument("--count", type=int, default=100, help="how many models")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first; the others follow")
    parser.add_argument("--ops", default=",".join(OPS), metavar="LIST",
                        help=f"ops to use, separated by commas, of: {', '.join(OPS)}")
    parser.add_argument("--precision", choices=SPACING, help="of every model (default: f32, and bf16 now and then)")
    parser.add_argument("--keep", metavar="DIR", help="where failing models go (default: a new folder)")
    args = model_runs.parse(parser, argv)
    args.ops = [name for name in args.ops.split(",") if not args.precision or name not in DISCONTINUOUS]
    unknown = [name for name in args.ops if name not in OPS]
    if unknown or args.count < 1:
        print(f"error: {'--ops: there is no ' + unknown[0] if unknown else '--count must be positive'}",
              file=sys.stderr)
        sys.exit(1)
    args.keep = args.keep or tempfile.mkdtemp(prefix="random-models-")
    return args


def main(argv=None):
    args = parse(argv)
    torch.set_num_threads(1)
    codes, refused = [], 0
    with tempfile.TemporaryDirectory(prefix="random-models-") as scratch:
        runner = Runner(args, scratch)
        for seed in range(args.seed, args.seed + args.count):
            model = generate(seed, args.ops, args.precision)
            outcome = runner.run(model.graph, model.flags)
            # What is not supported is said so (exit 1), in a few models of a hundred.
            refused += outcome.code == 1
            codes.append(0 if outcome.code == 1 else outcome.code)
            if outcome.code == 1:
                print(f"refused seed {seed}: {outcome.summary}", flush=True)
            elif outcome.code:
                print(f"FAIL  seed {seed}, {len(model.graph.nodes)} nodes, {' '.join(model.flags)}: "
                      f"{outcome.summary}", flush=True)
                runner.keep(model, outcome)
            if len(codes) % 25 == 0:
                print(f"{len(codes)} of {args.count} ...", file=sys.stderr, flush=True)
    print(f"{len(codes)} models, {sum(1 for code in codes if code)} failed, {refused} refused")
    if refused * 10 > max(len(codes), 10):
        print("FAIL  more than one model in ten is refused")
        codes.append(2)
    if not any(codes) and os.path.isdir(args.keep) and not os.listdir(args.keep):
        os.rmdir(args.keep)
    return model_runs.exit_code(codes)


if __name__ == "__main__":
    sys.exit(main())
