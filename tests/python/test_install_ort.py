#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/install_ort.sh: where ONNX Runtime cannot be installed, the tests go on without it, after a warning."""
import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["HPU_SOURCE_DIR"]
LIBRARY = "node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1"


class InstallOrt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("tools", "benchmarks/ort", "bin"):
            os.makedirs(os.path.join(self.folder, name))
        shutil.copy(os.path.join(SOURCE, "tools/install_ort.sh"), os.path.join(self.folder, "tools"))
        for tool in ("bash", "cat", "dirname", "mkdir", "touch"):
            os.symlink(shutil.which(tool), os.path.join(self.folder, "bin", tool))

    def run_with(self, npm=None):
        """With the text of a shell script in the place of npm; None: without any."""
        if npm is not None:
            path = os.path.join(self.folder, "bin/npm")
            with open(path, "w") as file:
                file.write(f"#!{shutil.which('bash')}\n{npm}")
            os.chmod(path, 0o755)
        environment = {"PATH": os.path.join(self.folder, "bin")}
        return subprocess.run([os.path.join(self.folder, "bin/bash"), os.path.join(self.folder, "tools/install_ort.sh")],
                              env=environment, capture_output=True, text=True, timeout=60)

    def test_a_failed_installation_warns_and_does_not_fail(self):
        result = self.run_with("echo no network >&2; exit 1\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("WARNING: ONNX Runtime could not be installed: 'npm ci' failed", result.stderr)
        self.assertIn("random_models", result.stderr)

    def test_without_npm_it_warns_and_does_not_fail(self):
        result = self.run_with()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("npm is not there", result.stderr)

    def test_an_installation_says_nothing(self):
        result = self.run_with(f"mkdir -p {os.path.dirname(LIBRARY)} && touch {LIBRARY}\n")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        # And is not done again.
        result = self.run_with("exit 1\n")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_all_tests_are_run_without_it(self):
        """tools/test.sh installs it by this script alone."""
        with open(os.path.join(SOURCE, "tools/test.sh")) as file:
            text = file.read()
        self.assertIn("tools/install_ort.sh", text)
        self.assertNotIn("npm ci", text)


if __name__ == "__main__":
    unittest.main()
