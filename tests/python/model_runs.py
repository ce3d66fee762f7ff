# SPDX-License-Identifier: Apache-2.0
"""One run of hpu-verify on one model folder, for the scripts that make models and judge the tool."""

import dataclasses
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
import script_arguments  # noqa: E402

OK, REFUSED, WRONG, FAILED = 0, 1, 2, 3  # exit codes of the tools
TARGETS = ("gaudi1", "gaudi2", "gaudi3")


@dataclasses.dataclass
class Outcome:
    """How a run ended: an exit code of the tools (FAILED also for signals, hangs and a broken
    report), stderr's text, and the JSON report, empty unless the run got that far."""

    code: int
    message: str
    report: dict = dataclasses.field(default_factory=dict)

    @property
    def summary(self):
        """One line about what went wrong."""
        if self.code == WRONG:
            wrong = [o for o in self.report.get("outputs", []) if not o.get("passed")]
            return "; ".join(f"{o['name']}: {o['wrong']} of {o['count']} wrong, max_abs "
                             f"{o['max_abs']}, rms_ratio {o['rms_ratio']}" for o in wrong)
        lines = self.message.strip().splitlines()
        return lines[0][:300] if lines else "no message on stderr"

    @property
    def kind(self):
        """Equal for failures that have one cause: the code and the message without its names."""
        if self.code == WRONG:
            return (WRONG, "")
        return (self.code, re.sub(r"'[^']*'|\S*/\S*|\d+|x", "", self.summary)[:80])


def hpu_verify(build, model, data, flags, work, timeout):
    """Runs the tool; `work` is where it may leave a reproducer of a crash."""
    command = [os.path.join(build, "bin", "hpu-verify"), model, "--data", data, "--json", "-q", *flags]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                timeout=timeout, check=False, env=dict(os.environ, TMPDIR=work))
    except subprocess.TimeoutExpired:
        return Outcome(FAILED, f"no result within {timeout:g} s")
    if result.returncode not in (OK, WRONG):
        code = REFUSED if result.returncode == REFUSED else FAILED
        return Outcome(code, result.stderr or f"exit code {result.returncode}")
    try:
        report = json.loads(result.stdout)
        if report["passed"] != (result.returncode == OK):
            return Outcome(FAILED, f"passed is {report['passed']} but the exit code {result.returncode}")
    except (ValueError, KeyError, TypeError) as error:
        return Outcome(FAILED, f"stdout is not the promised JSON object: {error}")
    return Outcome(result.returncode, result.stderr, report)


def add_arguments(parser):
    """The options that these scripts share."""
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one run")


def parse(parser, argv):
    """Parsed arguments; exits with 1 when they or the build tree cannot be worked with."""
    args = script_arguments.parse(parser, argv)
    if not os.access(os.path.join(args.build, "bin", "hpu-verify"), os.X_OK):
        print(f"error: hpu-verify is not in {args.build}/bin; build it or give --build",
              file=sys.stderr)
        sys.exit(1)
    return args


def formatted_parser(description):
    return script_arguments.parser(description)


def exit_code(codes):
    """That of a script whose runs ended with these codes: 0 ok, 2 wrong, 3 refused or failed."""
    if any(code in (REFUSED, FAILED) for code in codes):
        return FAILED
    return WRONG if any(codes) else OK
