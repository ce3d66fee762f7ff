# SPDX-License-Identifier: Apache-2.0
"""What the scripts that judge tools share: options, the build tree, and exit codes of a wrong call."""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def parser(description):
    """A parser whose help is `description` as it stands, with the option --build."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default=os.path.join(ROOT, "build"), help="build tree")
    return made


def parse(from_parser, argv):
    """Parsed arguments. A wrong call ends with 1, since argparse's 2 means a wrong result in these scripts."""
    try:
        return from_parser.parse_args(argv)
    except SystemExit as stop:
        sys.exit(1 if stop.code else 0)


def tool(build, name):
    """The path of a program of the build tree; OSError when it is not there."""
    path = os.path.join(build, "bin", name)
    if not os.access(path, os.X_OK):
        raise OSError(f"{path} is not there; build it or give --build")
    return path
