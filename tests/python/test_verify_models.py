# SPDX-License-Identifier: Apache-2.0
"""Tests of verify_models.py with stand-in tools: what it asks for, what it accepts, exit codes."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stand_ins  # noqa: E402
import verify_models  # noqa: E402
from verify_models import onnx_io  # noqa: E402

EXPECTED = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
TORCH_REL_RMS = 0.01


def scaled_error(rel_rms):
    """EXPECTED with exactly this relative RMS error: every element off by the same factor."""
    return (EXPECTED.astype(np.float64) * (1 + rel_rms)).astype(np.float32)


class VerifyModels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-verify-models-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.build = os.path.join(self.folder, "build")
        self.models = os.path.join(self.folder, "models")
        self.outputs = os.path.join(self.folder, "outputs")
        os.makedirs(self.outputs)
        np.save(os.path.join(self.outputs, "output_0.npy"), scaled_error(TORCH_REL_RMS))
        self.plan = {
            "hpu-compile": {"stdout": {"compile_ms": 1234.5}},
            "hpu-verify": {"stdout": {"passed": True, "outputs": [
                {"name": "y", "max_abs": 1e-6, "max_rel": 1e-6, "wrong": 0, "pcc": 1.0}]}},
            "hpu-run": {"stdout": {"compile_ms": 1}, "copy_outputs": self.outputs}}

    def add_model(self, name="m-opset13", batch=4, data_sets=1, bf16=True):
        folder = os.path.join(self.models, name)
        os.makedirs(folder)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        onnx.save(helper.make_model(graph), os.path.join(folder, "model.onnx"))
        for index in range(data_sets):
            onnx_io.save_data_set(os.path.join(folder, f"test_data_set_{index}"),
                                  [("x", EXPECTED)], [("y", EXPECTED)])
        if bf16:
            onnx_io.save_json(os.path.join(folder, "bf16.json"), {"rel_rms": TORCH_REL_RMS})
        return folder

    def run_script(self, *arguments):
        """Exit code and JSON report."""
        stand_ins.install(os.path.join(self.build, "bin"), self.plan)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = verify_models.main([self.models, "--build", self.build, "--json", *arguments])
        return code, json.loads(out.getvalue()) if out.getvalue() else err.getvalue()

    def calls(self, tool):
        return [call for call in stand_ins.calls(os.path.join(self.build, "bin"))
                if call[0] == tool]

    def test_passes_when_both_precisions_are_good(self):
        folder = self.add_model()
        code, report = self.run_script()
        self.assertEqual(code, 0)
        self.assertTrue(report["passed"])
        row = report["models"][0]
        self.assertEqual(row["name"], "m-opset13")
        self.assertEqual(row["compile_ms"], 1234.5)
        self.assertAlmostEqual(row["bf16_ratio"], 1.0, places=3)
        data = os.path.join(folder, "test_data_set_0")
        model = os.path.join(folder, "model.onnx")
        self.assertEqual(self.calls("hpu-verify"),
                         [["hpu-verify", model, "--data", data, "--json"]])
        run = self.calls("hpu-run")[0]
        self.assertEqual(run[run.index("--precision") + 1], "bf16")
        self.assertEqual(run[run.index("--data") + 1], data)

    def test_bf16_error_is_limited_to_the_factor_of_pytorchs(self):
        self.add_model()
        np.save(os.path.join(self.outputs, "output_0.npy"), scaled_error(1.24 * TORCH_REL_RMS))
        self.assertEqual(self.run_script()[0], 0)
        np.save(os.path.join(self.outputs, "output_0.npy"), scaled_error(1.26 * TORCH_REL_RMS))
        code, report = self.run_script()
        self.assertEqual(code, 2)
        self.assertIn("above 1.25 x", report["models"][0]["wrong"][0])
        self.assertEqual(self.run_script("--bf16-factor", "1.3")[0], 0)

    def test_an_exact_output_does_not_hide_the_bf16_error_of_another(self):
        folder = self.add_model()
        data = os.path.join(folder, "test_data_set_0")
        onnx_io.save_data_set(data, [("x", EXPECTED)], [("y", EXPECTED), ("z", 100 * EXPECTED)])
        onnx_io.save_bf16_reference(folder, ["y", "z"], [scaled_error(TORCH_REL_RMS), 100 * EXPECTED],
                                    [EXPECTED, 100 * EXPECTED], "test")
        self.plan["hpu-verify"]["stdout"]["outputs"] *= 2
        np.save(os.path.join(self.outputs, "output_1.npy"), 100 * EXPECTED)
        np.save(os.path.join(self.outputs, "output_0.npy"), scaled_error(1.2 * TORCH_REL_RMS))
        code, report = self.run_script()
        self.assertEqual(code, 0)
        self.assertAlmostEqual(report["models"][0]["bf16_ratio"], 1.2, places=2)
        np.save(os.path.join(self.outputs, "output_0.npy"), scaled_error(1.3 * TORCH_REL_RMS))
        self.assertEqual(self.run_script()[0], 2)

    def test_flags_reach_every_tool_and_units_are_checked_on_demand(self):
        self.add_model()
        outputs = self.plan["hpu-verify"]["stdout"]
        good = {"stdout": dict(outputs, per_op=[{}, {}], bisect=None)}
        bad = {"code": 2, "stdout": dict(outputs, passed=False, per_op=[{}, {}],
                                         bisect={"name": "conv_7"})}
        plain = self.plan["hpu-verify"]
        # Three runs of the script: f32, its units, the units of bf16.
        self.plan["hpu-verify"] = [plain, good, good, plain, bad, good, plain, good, bad]
        code, report = self.run_script("--per-op", "--level", "0", "--target", "gaudi3")
        self.assertEqual(code, 0)
        self.assertEqual((report["models"][0]["units"], report["models"][0]["bf16_units"]), (2, 2))
        precisions = [call[call.index("--precision") + 1] for call in self.calls("hpu-verify") if "--per-op" in call]
        self.assertEqual(precisions, ["f32", "bf16"])
        for tool in verify_models.TOOLS:
            for call in self.calls(tool):
                self.assertIn("-O0", call)
                self.assertEqual(call[call.index("--target") + 1], "gaudi3")
        for precision in ("f32", "bf16"):
            code, report = self.run_script("--per-op")
            self.assertEqual(code, 2)
            self.assertEqual(report["models"][0]["wrong"], [f"{precision}: unit conv_7 is wrong on its own inputs"])

    def test_nan_in_a_bf16_output_is_wrong_and_the_report_is_still_json(self):
        self.add_model()
        bad = EXPECTED.copy()
        bad[0, 0] = np.nan
        np.save(os.path.join(self.outputs, "output_0.npy"), bad)
        code, report = self.run_script()
        self.assertEqual(code, 2)
        self.assertIsNone(report["models"][0]["bf16_rel_rms"])

    def test_f32_mismatch_names_output_and_data_set(self):
        self.add_model(data_sets=2)
        good = self.plan["hpu-verify"]
        bad = {"code": 2, "stdout": {"passed": False, "outputs": [
            {"name": "y", "max_abs": 0.5, "max_rel": 1, "wrong": 7, "pcc": 0.1}]}}
        self.plan["hpu-verify"] = [good, bad]
        code, report = self.run_script("--precision", "f32")
        self.assertEqual(code, 2)
        row = report["models"][0]
        self.assertFalse(row["f32_passed"])
        self.assertEqual(row["f32_max_abs"], 0.5)
        self.assertIn("test_data_set_1", row["wrong"][0])
        self.assertIn("y (7 wrong)", row["wrong"][0])
        self.assertEqual(self.calls("hpu-run"), [])

    def test_exit_code_must_agree_with_passed(self):
        self.add_model()
        self.plan["hpu-verify"]["code"] = 2
        self.assertEqual(self.run_script()[0], 3)

    def test_every_output_must_be_reported(self):
        self.add_model()
        self.plan["hpu-verify"]["stdout"]["outputs"] = []
        code, report = self.run_script()
        self.assertEqual(code, 3)
        self.assertIn("0 outputs of 1", report["models"][0]["errors"][0])

    def test_crash_and_broken_json_are_tool_failures_and_other_checks_go_on(self):
        self.add_model()
        self.plan["hpu-compile"] = {"stdout": "", "code": 3, "stderr": "error: boom\n"}
        self.plan["hpu-verify"]["stdout"] = "progress 1 %"
        code, report = self.run_script()
        self.assertEqual(code, 3)
        row = report["models"][0]
        self.assertIn("boom", row["errors"][0])
        self.assertIn("not one JSON object", row["errors"][1])
        self.assertIsNone(row["f32_passed"])
        self.assertTrue(row["bf16_passed"])

    def test_missing_key_and_missing_or_misshapen_outputs_are_tool_failures(self):
        self.add_model()
        self.plan["hpu-compile"]["stdout"] = {}
        os.remove(os.path.join(self.outputs, "output_0.npy"))
        code, report = self.run_script()
        self.assertEqual(code, 3)
        self.assertIn("compile_ms", report["models"][0]["errors"][0])
        self.assertIn("output_0.npy", report["models"][0]["errors"][1])
        np.save(os.path.join(self.outputs, "output_0.npy"), EXPECTED.reshape(3, 4))
        self.assertIn("shape", self.run_script()[1]["models"][0]["errors"][1])

    def test_timeout_is_a_tool_failure(self):
        self.add_model()
        self.plan["hpu-compile"]["sleep"] = 20
        code, report = self.run_script("--timeout", "1")
        self.assertEqual(code, 3)
        self.assertIn("within 1 s", report["models"][0]["errors"][0])

    def test_free_dimensions_are_named_to_the_compiler_and_all_data_sets_verified(self):
        self.add_model("m-opset13-dynamic", batch="batch", data_sets=2)
        self.assertEqual(self.run_script()[0], 0)
        self.assertIn("x=4x3", self.calls("hpu-compile")[0])
        self.assertEqual(len(self.calls("hpu-verify")), 2)

    def test_static_models_get_no_shape(self):
        self.add_model()
        self.run_script()
        self.assertNotIn("--shape", self.calls("hpu-compile")[0])

    def test_model_without_a_bf16_reference_is_checked_in_f32_only(self):
        self.add_model(bf16=False)
        code, report = self.run_script()
        self.assertEqual(code, 0)
        self.assertIsNone(report["models"][0]["bf16_passed"])

    def test_lost_accuracy_is_wrong_even_with_a_small_rms_error(self):
        folder = self.add_model()
        onnx_io.save_tensor(os.path.join(folder, "labels.pb"), EXPECTED.argmax(1))
        self.assertEqual(self.run_script()[1]["models"][0]["top1"], 1.0)
        swapped = EXPECTED.copy()
        swapped[0] = swapped[0, ::-1]
        np.save(os.path.join(self.outputs, "output_0.npy"), swapped)
        code, report = self.run_script("--bf16-factor", "1000")
        self.assertEqual(code, 2)
        self.assertEqual(report["models"][0]["top1"], 0.75)
        self.assertIn("accuracy", report["models"][0]["wrong"][0])

    def test_nothing_to_verify_and_missing_tools_are_user_errors(self):
        os.makedirs(self.models)
        self.assertEqual(self.run_script()[0], 1)
        self.add_model()
        del self.plan["hpu-run"]
        shutil.rmtree(self.build)
        code, message = self.run_script()
        self.assertEqual(code, 1)
        self.assertIn("hpu-run not in", message)

    def test_table_shows_the_verdicts(self):
        row = verify_models.Row("m", compile_ms=25000.0, f32_passed=True, f32_max_abs=1e-6,
                                bf16_rel_rms=0.02, torch_rel_rms=0.01, bf16_passed=False,
                                wrong=["bf16 too far off"])
        text = verify_models.table([row])
        self.assertIn("25000!", text)
        self.assertIn("WRONG", text)
        self.assertIn("2.00", text)
        self.assertIn("bf16 too far off", text)
        self.assertIn("1 models, 1 failed", text)

    def test_markdown_has_a_line_for_every_model_and_a_dash_for_what_is_unknown(self):
        rows = [verify_models.Row("m", f32_max_abs=1e-6, f32_rel_rms=2e-7, bf16_rel_rms=0.02,
                                  torch_rel_rms=0.01), verify_models.Row("n")]
        lines = verify_models.markdown(rows).splitlines()
        self.assertEqual(lines[2], "| m | 1.0e-06 | 2.0e-07 | 0.02000 | 0.01000 | 2.00 |")
        self.assertEqual(lines[3], "| n | – | – | – | – | – |")


if __name__ == "__main__":
    unittest.main()
