#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tools on exported models and judges their f32 and bf16 results against PyTorch's.

f32: hpu-verify must report `passed` on every data set. bf16: the relative RMS error of
`hpu-run --precision bf16` on data set 0 must be at most --bf16-factor times PyTorch's (bf16.json);
a model with labels.pb must also keep its top-1 accuracy within half a percent of the f32 reference.
Both hold for all outputs together and for each. --per-op also compares every unit of the programs
with the reference interpreter, in each precision. The compile time is reported; only --timeout limits it.

Exit codes: 0 ok, 1 user error, 2 a result is wrong, 3 a tool failed.
"""

import dataclasses
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
import onnx_io  # noqa: E402
import script_arguments  # noqa: E402

TOOLS = ("hpu-compile", "hpu-run", "hpu-verify")
TARGET_COMPILE_MS = 10000.0
MAX_ACCURACY_LOSS = 0.005


class UserError(Exception):
    """The arguments cannot be worked with; the text says what to give instead."""


class ToolFailed(Exception):
    """A tool crashed, timed out or broke its JSON contract; the text says which and how."""


@dataclasses.dataclass
class Row:
    """What is known of one model; None where it was not looked at."""

    name: str
    compile_ms: float = None
    f32_passed: bool = None
    f32_max_abs: float = None
    f32_rel_rms: float = None
    bf16_rel_rms: float = None
    torch_rel_rms: float = None
    bf16_passed: bool = None
    top1: float = None
    units: int = None  # compared one by one
    bf16_units: int = None
    errors: list = dataclasses.field(default_factory=list)  # a tool failed
    wrong: list = dataclasses.field(default_factory=list)  # a result is wrong

    @property
    def bf16_ratio(self):
        """Our bf16 error over PyTorch's; None when either is unknown."""
        if self.bf16_rel_rms is None or not self.torch_rel_rms:
            return None
        return self.bf16_rel_rms / self.torch_rel_rms


def run_tool(args, tool, arguments, accepted=(0,)):
    """Runs a tool with --json; returns its exit code and the object that it printed."""
    command = [os.path.join(args.build, "bin", tool), *arguments, *args.flags, "--json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout,
                                check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"{tool}: no result within {args.timeout:g} s") from error
    except OSError as error:
        raise ToolFailed(f"{tool}: {error}") from error
    if result.returncode not in accepted:
        lines = result.stderr.strip().splitlines()
        raise ToolFailed(f"{tool}: exit code {result.returncode}: "
                         f"{lines[-1] if lines else 'no message on stderr'}")
    try:
        report = json.loads(result.stdout)
    except json.JSONDecodeError as error:
        raise ToolFailed(f"{tool}: stdout is not one JSON object: {error}") from error
    if not isinstance(report, dict):
        raise ToolFailed(f"{tool}: stdout is not one JSON object")
    return result.returncode, report


def need(tool, report, key):
    """The value of a key that the tool's contract promises."""
    if key not in report:
        raise ToolFailed(f"{tool}: its JSON has no key '{key}'")
    return report[key]


def shape_flags(model_path, data_set):
    """--shape for each input with a free dimension, from the data; nothing for static models."""
    graph = onnx.load(model_path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    flags = []
    for value, array in zip(inputs, onnx_io.load_data_set(data_set, "input")):
        if any(not dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim):
            flags += ["--shape", f"{value.name}={'x'.join(map(str, array.shape))}"]
    return flags


def check_compile(args, row, model, data_sets, work):
    recipe = os.path.join(work, "model.recipe")
    _, report = run_tool(args, "hpu-compile",
                         [model, "-o", recipe, *shape_flags(model, data_sets[0])])
    row.compile_ms = float(need("hpu-compile", report, "compile_ms"))


def check_f32(args, row, model, data_sets, _work):
    all_passed, max_abs, rel_rms = True, 0.0, 0.0
    for data in data_sets:
        code, report = run_tool(args, "hpu-verify", [model, "--data", data], accepted=(0, 2))
        passed = need("hpu-verify", report, "passed")
        if passed != (code == 0):
            raise ToolFailed(f"hpu-verify: passed is {passed} but the exit code {code}")
        outputs = need("hpu-verify", report, "outputs")
        expected = len(glob.glob(os.path.join(data, "output_*.pb")))
        if len(outputs) != expected:
            raise ToolFailed(f"hpu-verify: reports {len(outputs)} outputs of {expected}")
        for output in outputs:
            if output["max_abs"] is not None:  # JSON has no NaN: null then, and not passed
                max_abs = max(max_abs, output["max_abs"])
                rel_rms = max(rel_rms, output.get("rms_ratio", 0.0))
        if not passed:
            all_passed = False
            names = ", ".join(f"{o['name']} ({o['wrong']} wrong)" for o in outputs if o["wrong"])
            row.wrong.append(f"f32 differs on {os.path.basename(data)}: {names or 'see hpu-verify'}")
    row.f32_passed, row.f32_max_abs, row.f32_rel_rms = all_passed, max_abs, rel_rms


def units_one_by_one(args, model, data_sets, precision):
    """How many units were compared, and what is wrong with the first that is wrong (a list)."""
    code, report = run_tool(args, "hpu-verify", [model, "--data", data_sets[0], "--per-op",
                                                 "--precision", precision], accepted=(0, 2))
    culprit = need("hpu-verify", report, "bisect")
    wrong = [f"{precision}: unit {culprit['name']} is wrong on its own inputs"] if code != 0 and culprit else []
    return len(need("hpu-verify", report, "per_op")), wrong


def check_units(args, row, model, data_sets, _work):
    row.units, wrong = units_one_by_one(args, model, data_sets, "f32")
    row.wrong += wrong


def check_bf16_units(args, row, model, data_sets, _work):
    row.bf16_units, wrong = units_one_by_one(args, model, data_sets, "bf16")
    row.wrong += wrong


def load_outputs(folder, count):
    """output_k.npy for k < count, as hpu-run --output writes them."""
    arrays = []
    for index in range(count):
        path = os.path.join(folder, f"output_{index}.npy")
        try:
            arrays.append(np.load(path))
        except (OSError, ValueError) as error:
            raise ToolFailed(f"hpu-run: output_{index}.npy cannot be read: {error}") from error
    return arrays


def check_bf16(args, row, model, data_sets, work):
    folder = os.path.dirname(model)
    reference = os.path.join(folder, "bf16.json")
    if not os.path.exists(reference):
        return
    torch_error = onnx_io.load_json(reference)
    expected = onnx_io.load_data_set(data_sets[0], "output")
    outputs = os.path.join(work, "outputs")
    os.makedirs(outputs)
    run_tool(args, "hpu-run", [model, "--precision", "bf16", "--data", data_sets[0],
                               "--iters", "1", "--warmup", "0", "--output", outputs],
             accepted=(0, 2))  # its own elementwise tolerance is not the criterion here
    actual = load_outputs(outputs, len(expected))
    # Integers are places (ArgMax, what a suppression keeps), which any rounding may turn: f32 has shown them.
    each = torch_error.get("output_rel_rms", [None] * len(expected))
    judged = [(a, b, of_torch) for a, b, of_torch in zip(actual, expected, each) if b.dtype.kind == "f"]
    try:
        errors = []
        if len(judged) == len(expected):
            errors = [(onnx_io.error_metrics(actual, expected)["rel_rms"], torch_error["rel_rms"])]
        # An output that is exact would hide the error of another: each has to pass, the worst shows.
        errors += [(onnx_io.error_metrics([a], [b])["rel_rms"], of_torch) for a, b, of_torch in judged if of_torch is not None]
    except ValueError as error:
        raise ToolFailed(f"hpu-run: {error}") from error
    row.bf16_passed = all(ours <= args.bf16_factor * of_torch for ours, of_torch in errors)
    row.bf16_rel_rms, row.torch_rel_rms = max(
        errors, key=lambda pair: pair[0] / pair[1] if pair[1] else np.inf * (pair[0] > 0))
    if not row.bf16_passed:
        row.wrong.append(f"bf16 rel_rms {row.bf16_rel_rms:.5f} is above {args.bf16_factor:g} x "
                         f"PyTorch's {row.torch_rel_rms:.5f}")
    labels = os.path.join(folder, "labels.pb")
    if os.path.exists(labels):
        check_accuracy(row, onnx_io.load_tensor(labels), actual[0], expected[0])


def check_accuracy(row, labels, actual, expected):
    row.top1 = float((actual.argmax(1) == labels).mean())
    reference = float((expected.argmax(1) == labels).mean())
    if row.top1 < reference - MAX_ACCURACY_LOSS:
        row.wrong.append(f"bf16 top-1 accuracy {row.top1:.4f}, the reference has {reference:.4f}")


def verify(args, name, folder):
    """All checks of one model; a failing tool ends only its own check."""
    row = Row(name)
    model = os.path.join(folder, "model.onnx")
    data_sets = sorted(glob.glob(os.path.join(folder, "test_data_set_*")))
    checks = [check_compile]
    if args.precision in ("f32", "both"):
        checks.append(check_f32)
        if args.per_op:
            checks.append(check_units)
    if args.precision in ("bf16", "both"):
        checks.append(check_bf16)
        if args.per_op:
            checks.append(check_bf16_units)
    for check in checks:
        with tempfile.TemporaryDirectory(prefix="verify-models-") as work:
            try:
                check(args, row, model, data_sets, work)
            except ToolFailed as error:
                row.errors.append(str(error))
    return row


def find_models(paths):
    """(name, folder) of each argument that is a model folder or contains model folders."""
    found = []
    for path in paths:
        if not os.path.isdir(path):
            raise UserError(f"{path} is not a folder")
        for folder in [path] + sorted(glob.glob(os.path.join(path, "*", ""))):
            folder = os.path.abspath(folder)
            if os.path.isfile(os.path.join(folder, "model.onnx")) and os.path.isdir(
                    os.path.join(folder, "test_data_set_0")):
                found.append((os.path.basename(folder), folder))
    if not found:
        raise UserError("no folder with model.onnx and test_data_set_0 found; make some with "
                        "tests/models/export_models.py --out DIR")
    return found


def table(rows):
    def number(value, form):
        return "-" if value is None else format(value, form)

    lines = [f"{'model':32} {'compile ms':>11} {'f32':>5} {'max_abs':>9} {'bf16':>5} {'rel_rms':>8} "
             f"{'torch':>8} {'ratio':>6} {'top-1':>6}"]
    verdict = {None: "-", True: "ok", False: "WRONG"}
    for row in rows:
        slow = "!" if row.compile_ms is not None and row.compile_ms > TARGET_COMPILE_MS else " "
        lines.append(f"{row.name:32} {number(row.compile_ms, '.0f'):>10}{slow} "
                     f"{verdict[row.f32_passed]:>5} {number(row.f32_max_abs, '.2e'):>9} "
                     f"{verdict[row.bf16_passed]:>5} {number(row.bf16_rel_rms, '.5f'):>8} "
                     f"{number(row.torch_rel_rms, '.5f'):>8} {number(row.bf16_ratio, '.2f'):>6} "
                     f"{number(row.top1, '.4f'):>6}")
        lines += [f"    {text}" for text in row.errors + row.wrong]
    bad = sum(1 for row in rows if row.errors or row.wrong)
    lines.append(f"{len(rows)} models, {bad} failed ('!': compile above "
                 f"{TARGET_COMPILE_MS / 1000:g} s)")
    return "\n".join(lines)


def markdown(rows):
    """A table for the documentation."""
    def number(value, form):
        return "–" if value is None else format(value, form)

    lines = ["| model | f32: largest error | f32: relative RMS | bf16: relative RMS | PyTorch's | ratio |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(" | ".join((
            f"| {row.name}", number(row.f32_max_abs, ".1e"), number(row.f32_rel_rms, ".1e"),
            number(row.bf16_rel_rms, ".5f"), number(row.torch_rel_rms, ".5f"),
            number(row.bf16_ratio, ".2f") + " |")))
    return "\n".join(lines)


def report_of(rows):
    """The JSON report; an infinite error (a NaN in an output) is null, as JSON has neither."""
    def finite(value):
        return None if isinstance(value, float) and not np.isfinite(value) else value

    models = []
    for row in rows:
        fields = dict(dataclasses.asdict(row), bf16_ratio=row.bf16_ratio,
                      passed=not (row.errors or row.wrong))
        models.append({key: finite(value) for key, value in fields.items()})
    return {"passed": all(model["passed"] for model in models), "models": models}


def parse(argv):
    parser = script_arguments.parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="DIR", help="model folders or folders of them")
    parser.add_argument("--precision", choices=("f32", "bf16", "both"), default="both")
    parser.add_argument("--bf16-factor", type=float, default=1.25)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one tool")
    parser.add_argument("--per-op", action="store_true", help="check every unit as well")
    parser.add_argument("--level", type=int, choices=range(4), help="optimisation level")
    parser.add_argument("--target", choices=("gaudi1", "gaudi2", "gaudi3"))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    args = script_arguments.parse(parser, argv)
    args.flags = [f"-O{args.level}"] if args.level is not None else []
    args.flags += ["--target", args.target] if args.target else []
    return args


def main(argv=None):
    args = parse(argv)
    try:
        models = find_models(args.models)
        missing = [tool for tool in TOOLS
                   if not os.access(os.path.join(args.build, "bin", tool), os.X_OK)]
        if missing:
            raise UserError(f"{', '.join(missing)} not in {args.build}/bin; build them or give "
                            "--build")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rows = []
    for name, folder in models:
        print(f"{name} ...", file=sys.stderr)
        rows.append(verify(args, name, folder))
    if args.json:
        print(json.dumps(report_of(rows)))
    elif args.markdown:
        print(markdown(rows))
        print("\n".join(f"{row.name}: {text}" for row in rows for text in row.errors + row.wrong),
              file=sys.stderr)
    else:
        print(table(rows))
    if any(row.errors for row in rows):
        return 3
    return 2 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
