# SPDX-License-Identifier: Apache-2.0
"""The Python package: models in, recipes out, beside the program and cancelled; the ranges of fp8."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import numpy as np
import onnx
import onnx.numpy_helper

from openhpu_cases import BUILD, DIGITS, Digits, long_model, MODEL, openhpu, ROOT, tool


class Compiling(Digits):
    """Recipes of the tools, and compilations that go on beside the program."""

    def test_the_recipe_of_hpu_compile_is_the_same(self):
        path = os.path.join(self.work.name, "cli.recipe")
        told = tool("hpu-compile", MODEL, "-o", path, "--target", "gaudi2", "--report", "fusion")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), self.recipe.to_bytes())
        report = self.recipe.report
        for key in ("recipe_bytes", "workspace_bytes", "largest_live_set_bytes", "sram_peak_bytes", "device_time_us",
                    "lower_bound_us", "lower_bound_parts_us", "lower_bound_bytes", "cache_hit", "unsupported", "reports"):
            self.assertEqual(report[key], told[key], key)
        self.assertEqual([one["name"] for one in report["phases"]], [one["name"] for one in told["phases"]])
        [loaded] = openhpu.Session(openhpu.load(path), self.session.device).run(self.images)
        np.testing.assert_array_equal(loaded, self.outputs)

    def test_the_search_effort_is_that_of_hpu_compile_and_changes_no_result(self):
        path = os.path.join(self.work.name, "effort.recipe")
        tool("hpu-compile", MODEL, "-o", path, "--target", "gaudi2", "--search-effort", "0")
        recipe = openhpu.compile(MODEL, search_effort=0, cache="")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), recipe.to_bytes())
        self.assertNotEqual(recipe.to_bytes(), self.recipe.to_bytes())
        [found] = openhpu.Session(recipe, self.session.device).run(self.images)
        np.testing.assert_array_equal(found, self.outputs)

    def test_models_come_as_bytes_and_as_protos_too(self):
        proto = onnx.load(MODEL)
        for model in (proto, proto.SerializeToString()):
            [logits] = openhpu.Session(openhpu.compile(model), self.session.device).run(self.images)
            np.testing.assert_array_equal(logits, self.outputs)

    def test_recipes_say_what_they_are(self):
        [image], [logits] = self.recipe.inputs, self.recipe.outputs
        self.assertEqual((image.name, image.dtype, image.shape, image.nbytes), ("image", "f32", (360, 1, 8, 8), 92160))
        self.assertEqual((logits.name, logits.numpy_dtype, logits.shape), ("logits", np.float32, (360, 10)))
        self.assertEqual(self.recipe.target, "gaudi2")
        self.assertIn("image: f32[360, 1, 8, 8]", repr(self.recipe))
        self.assertIsNone(openhpu.load(self.file).report)
        self.assertEqual(pickle.loads(pickle.dumps(self.recipe)).to_bytes(), self.recipe.to_bytes())

    def test_free_dimensions_take_sizes(self):
        model = os.path.join(DIGITS, "model_dynamic.onnx")
        for sizes in ({"dims": {"batch": 8}}, {"shapes": {"image": np.shape(self.images[:8])}}):
            recipe = openhpu.compile(model, **sizes)
            [logits] = openhpu.Session(recipe, self.session.device).run(self.images[:8])
            np.testing.assert_allclose(logits, self.expected[:8], rtol=1e-3, atol=1e-4)

    def test_bounds_leave_dimensions_free(self):
        model = os.path.join(DIGITS, "model_dynamic.onnx")
        recipe = openhpu.compile(model, dims={"batch": (1, 16)})
        self.assertEqual(recipe.dims, {"batch": (1, 16)})
        with openhpu.Session(recipe, self.session.device) as session:
            for batch in (16, 1, 5):
                [logits] = session.run(self.images[:batch])
                np.testing.assert_allclose(logits, self.expected[:batch], rtol=1e-3, atol=1e-4)
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, "'batch' is 17 by input 'image'.*bounds 1 to 16"):
                session.run(self.images[:17])
        for bounds, kind, words in (((1, 2, 3), ValueError, r"dims\['batch'\] is a size, or \(LEAST, MOST\), not 3"),
                                    ((1, "2"), TypeError, r"dims\['batch'\]\[1\] is an integer"), ((5, 4), ValueError, "batch")):
            with self.assertRaisesRegex(kind, words):
                openhpu.compile(model, dims={"batch": bounds})

    def test_other_threads_go_on_while_it_compiles(self):
        seen, ends = [], threading.Event()

        def count():
            while not ends.is_set():
                seen.append(None)
                time.sleep(0.001)
        counter = threading.Thread(target=count)
        counter.start()
        model = long_model()
        before = len(seen)
        openhpu.compile(model, cache="")
        after = len(seen)
        ends.set()
        counter.join()
        self.assertGreater(after - before, 5)

    def test_compilations_go_on_beside_the_program_and_give_the_same_recipe(self):
        for model in (MODEL, onnx.load(MODEL)):
            compilation = openhpu.compile_async(model, reports="fusion")
            recipe = compilation.result(timeout=120)
            self.assertTrue(compilation.done())
            self.assertEqual(compilation.phase, "")
            self.assertIs(compilation.result(), recipe)
            self.assertIsNone(compilation.exception())
            self.assertEqual(recipe.to_bytes(), self.recipe.to_bytes())
            self.assertEqual(recipe.report["reports"], self.recipe.report["reports"])

        async def several():
            return await asyncio.gather(*(openhpu.compile_async(MODEL, target=target) for target in ("gaudi2", "gaudi3")))
        self.assertEqual([one.target for one in asyncio.run(several())], ["gaudi2", "gaudi3"])

    def test_compilations_can_be_cancelled(self):
        compilation = openhpu.compile_async(long_model(), opt_level=3)
        self.assertIn(compilation.phase, ["import"] + [one["name"] for one in self.recipe.report["phases"]])
        compilation.cancel()
        with self.assertRaises(openhpu.CancelledError) as caught:
            compilation.result()
        self.assertIn("phase", str(caught.exception))
        self.assertIsInstance(compilation.exception(), openhpu.CancelledError)

        async def too_late():
            compilation = openhpu.compile_async(long_model(), opt_level=3)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(compilation, 0.001)
            self.assertFalse(compilation.done())
            compilation.cancel()
            with self.assertRaises(openhpu.CancelledError):
                await compilation
        asyncio.run(too_late())
        with self.assertRaises(TimeoutError):
            openhpu.compile_async(long_model(), opt_level=3).result(timeout=0)

    def test_failures_of_compilations_beside_the_program_are_those_of_compile(self):
        with self.assertRaises(FileNotFoundError):
            openhpu.compile_async("/nowhere/model.onnx").result()
        unknown = openhpu.compile_async(os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx")).exception()
        self.assertEqual({one["op"] for one in unknown.unsupported}, {"FrobnicateTensor", "GlorpReduce", "ZorkConv"})
        with self.assertRaisesRegex(ValueError, "gaudi9"):
            openhpu.compile_async(MODEL, target="gaudi9")

    def test_ctrl_c_cancels_a_compilation(self):
        cancelled = []
        with mock.patch.object(openhpu.Compilation, "cancel", lambda self: cancelled.append(self)):
            with self.interrupted(0.05), self.assertRaises(KeyboardInterrupt):
                openhpu.compile(long_model(), opt_level=3)
        self.assertEqual(len(cancelled), 1)

    def test_ranges_are_those_of_hpu_compile(self):
        path = os.path.join(self.work.name, "calibrated.recipe")
        tool("hpu-compile", MODEL, "-o", path, "--target", "gaudi2", "--precision", "fp8", "--calibrate", DIGITS)
        ranges = openhpu.calibrate(MODEL, [{"image": self.images}])
        self.assertTrue(all(value > 0 for value in ranges.values()) and ranges)
        recipe = openhpu.compile(MODEL, precision="fp8", ranges=ranges)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), recipe.to_bytes())
        self.assertNotEqual(openhpu.compile(MODEL, precision="fp8").to_bytes(), recipe.to_bytes())
        # The largest of all samples, by name or in order; sizes are those of the first.
        halves = [{"image": self.images[:180]}, {"image": self.images[180:]}]
        dynamic = os.path.join(DIGITS, "model_dynamic.onnx")
        apart = openhpu.calibrate(dynamic, iter(halves))
        each = [openhpu.calibrate(dynamic, [list(half.values())], dims={"batch": 180}) for half in halves]
        self.assertEqual(apart, {name: max(one[name] for one in each) for name in apart})
        for name, value in ranges.items():
            self.assertAlmostEqual(apart[name], value, delta=1e-3 * value)
        with self.assertRaisesRegex(openhpu.InvalidArgumentError, "none was given"):
            openhpu.calibrate(MODEL, [])
        with self.assertRaisesRegex(openhpu.InvalidArgumentError, 'precision="fp8".*bf16 needs no ranges'):
            openhpu.calibrate(MODEL, [[self.images]], precision="bf16")

    def test_calibration_refuses_samples_that_make_an_activation_nan_or_infinite(self):
        for number, kind in ((np.nan, "NaN"), (np.inf, "infinite")):
            bad = self.images.copy()
            bad[7, 0, 3, 3] = number
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, f"samples.1. the activation '.+' is {kind}.*leave it out"):
                openhpu.calibrate(MODEL, [[self.images], {"image": bad}])
            folder = os.path.join(self.work.name, kind, "test_data_set_0")
            os.makedirs(folder)
            with open(os.path.join(folder, "input_0.pb"), "wb") as file:
                file.write(onnx.numpy_helper.from_array(bad, "image").SerializeToString())
            done = subprocess.run([os.path.join(BUILD, "bin", "hpu-compile"), MODEL, "-o", os.devnull, "--precision", "fp8",
                                   "--calibrate", os.path.dirname(folder)], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, f"{folder}' the activation '.+' is {kind}.*leave them out")

    def test_ctrl_c_ends_the_wait_for_a_compilation(self):
        code = f"""if True:
            import signal, sys
            sys.path.insert(0, {os.path.join(BUILD, "python")!r})
            import openhpu
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                openhpu.compile({MODEL!r}, opt_level=3)
            except KeyboardInterrupt:
                print("interrupted")"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "interrupted", ""))


class LargeTensors(unittest.TestCase):
    def test_recipes_do_not_hold_counters_as_large_as_their_tensors(self):
        size = (1 << 31) - 1
        infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size]) for name in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Bernoulli", ["x"], ["y"], seed=1.0)], "g", infos[:1], infos[1:])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8)
        self.assertLess(len(openhpu.compile(model, cache="").to_bytes()), 1 << 20)


if __name__ == "__main__":
    unittest.main()
