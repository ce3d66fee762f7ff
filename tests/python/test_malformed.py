# SPDX-License-Identifier: Apache-2.0
"""Tests of the malformed models (are they what the script writes, are they broken?) and of
verify_malformed.py with stand-in tools."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models", "malformed")
sys.path.insert(0, HERE)
sys.path.insert(0, MODELS)
import make_malformed  # noqa: E402
import stand_ins  # noqa: E402
import verify_malformed  # noqa: E402

# Broken in a way that onnx's checker and strict shape inference do not see (1.12).
CHECKER_IS_BLIND = re.compile(
    r"external_(?!missing)|opset_(ancient|future)|undefined_output|data_short|dims_(huge_input|"
    r"negative|wrap)|shape_(conv|gemm|pool|reshape\.)")

CHECK = """
import sys, onnx
for path in sys.argv[1:]:
    try:
        onnx.checker.check_model(path, full_check=True)
        proto = onnx.load(path, load_external_data=False)
        onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        print(path)
    except Exception:
        pass
"""


class Files(unittest.TestCase):
    def test_committed_files_are_what_the_script_writes(self):
        made = make_malformed.make_all()
        listed = {name for name in os.listdir(MODELS) if name.endswith((".onnx", ".bin", ".json"))}
        self.assertEqual(listed, set(made))
        for name, data in made.items():
            with open(os.path.join(MODELS, name), "rb") as file:
                self.assertEqual(file.read(), data, name)

    def test_onnx_rejects_all_that_it_can_see(self):
        visible = [name for name in make_malformed.MANIFEST if not CHECKER_IS_BLIND.match(name)]
        self.assertGreater(len(visible), 20)
        with tempfile.TemporaryDirectory() as folder:
            copies = os.path.join(folder, "copies")  # a full check rewrites the file that it checks
            shutil.copytree(MODELS, copies)
            result = subprocess.run([sys.executable, "-W", "ignore", "-c", CHECK, *visible],
                                    capture_output=True, text=True, check=True, cwd=copies)
        self.assertEqual(result.stdout.split(), [])

    def test_patterns_compile_and_none_is_satisfied_by_an_empty_text(self):
        for name, entry in make_malformed.MANIFEST.items():
            self.assertTrue(entry["mention"], name)
            for pattern in entry["mention"]:
                self.assertIsNone(re.search(pattern, ""), name)

    def test_named_objects_exist_in_the_models(self):
        """A pattern that is a plain word must be in the file, or no error could mention it."""
        for name, entry in make_malformed.MANIFEST.items():
            with open(os.path.join(MODELS, name), "rb") as file:
                data = file.read()
            for pattern in entry["mention"]:
                if re.fullmatch(r"[a-z]+_[a-z_]+", pattern):
                    self.assertIn(pattern.encode(), data, name)

    def test_the_escaping_path_leads_to_a_file_that_exists(self):
        proto = onnx.load(os.path.join(MODELS, "external_escape.onnx"), load_external_data=False)
        location = proto.graph.initializer[0].external_data[-1].value
        self.assertTrue(os.path.exists(os.path.join(MODELS, location)), location)


class Verifier(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-malformed-")
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(self.folder, "shape_bad.onnx"), "wb"):
            pass
        with open(os.path.join(self.folder, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump({"shape_bad.onnx": {"what": "a wrong shape", "mention": ["shape", "4|5"]}},
                      file)

    def run_script(self, *arguments, **plan):
        stand_ins.install(os.path.join(self.folder, "bin"), {"hpu-compile": dict(plan, stdout="")})
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = verify_malformed.main(["--models", self.folder, "--build", self.folder,
                                          *arguments])
        return code, out.getvalue()

    def test_good_refusal_passes(self):
        self.assertEqual(self.run_script(code=1, stderr="error: node n: Shape 4")[0], 0)

    def test_acceptance_fails(self):
        code, text = self.run_script(code=0, stderr="shape 4")
        self.assertEqual(code, 2)
        self.assertIn("was accepted", text)

    def test_the_path_does_not_satisfy_a_pattern(self):
        model = os.path.join(self.folder, "shape_bad.onnx")
        code, text = self.run_script(code=1, stderr=f"error: {model}: 5 is wrong")
        self.assertEqual(code, 2)
        self.assertIn("/shape/", text)

    def test_internal_errors_signals_and_hangs_are_crashes(self):
        self.assertEqual(self.run_script(code=3, stderr="shape 4")[0], 3)
        code, text = self.run_script("--timeout", "0.5", code=1, stderr="shape 4", sleep=10)
        self.assertEqual(code, 3)
        self.assertIn("0.5 s", text)

    def test_missing_tool_is_a_user_error(self):
        with contextlib.redirect_stderr(io.StringIO()) as text:
            code = verify_malformed.main(["--models", self.folder, "--build", self.folder + "/no"])
        self.assertEqual(code, 1)
        self.assertIn("hpu-compile", text.getvalue())


if __name__ == "__main__":
    unittest.main()
