# SPDX-License-Identifier: Apache-2.0
"""What tests of the tools share: the programs of HPU_BINARY_DIR (default: build), run on pipes and on terminals."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading

try:
    import onnx
    import onnx.helper
    import onnx.numpy_helper
except ImportError:
    onnx = None

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build"), "bin")
DIGITS = os.path.join(ROOT, "tests", "models", "digits")
MODEL = os.path.join(DIGITS, "model.onnx")
NO_COLUMNS = {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def run(tool, *arguments, **options):
    """The tool on pipes, whatever its exit code."""
    return subprocess.run([os.path.join(BIN, tool), *arguments], capture_output=True, text=True, timeout=200, check=False,
                          **options)


def on_terminal(columns, tool, *arguments, errors_too=True, **options):
    """The tool on a terminal of so many columns: its exit code, the lines there, and stderr when that is a pipe
    (`errors_too` puts it on the terminal). What a progress line shows and then replaces is a line of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen([os.path.join(BIN, tool), *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                          stderr=theirs if errors_too else subprocess.PIPE, env=NO_COLUMNS, **options) as process:
        os.close(theirs)
        limit = threading.Timer(200, process.kill)
        limit.start()
        text = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # The other end is closed.
                break
            if not part:
                break
            text += part
        error = "" if errors_too else process.stderr.read().decode()
        process.wait()
        limit.cancel()
    os.close(ours)
    lines = text.decode().replace("\r\n", "\n").replace("\r\x1b[K", "\n").splitlines()
    return process.returncode, lines, error
