# SPDX-License-Identifier: Apache-2.0
"""The Python package: errors and what they say, waits that end, forks and ends of programs."""

import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from openhpu_cases import BUILD, DIGITS, Digits, MODEL, model_of, openhpu, ROOT


class Errors(Digits):
    """Everything that fails does so at once, in the words of Python."""

    def test_errors_of_arrays_name_the_input_and_both_shapes(self):
        def fails(pattern, *inputs):
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, pattern) as caught:
                self.session.run(*inputs)
            self.assertIsInstance(caught.exception, ValueError)
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        fails("input 'image' has the shape 360x1x8x8, but an array of shape 359x1x8x8", self.images[1:])
        fails("input 'image' is f32 .numpy float32., but an array of float64", self.images.astype(float))
        fails("there is no input 'picture'; the inputs are 'image'", {"picture": self.images})
        fails("input 'image' is missing", {})
        fails("the model has 1 inputs .'image'., but 2 were given", self.images, self.images)
        fails("input 'image' .* does not convert", [["a"]])

    def test_other_errors_are_what_python_calls_them(self):
        with self.assertRaises(FileNotFoundError) as caught:
            openhpu.compile("/nowhere/model.onnx")
        self.assertIsInstance(caught.exception, openhpu.Error)
        self.assertIn("/nowhere/model.onnx", str(caught.exception))
        with self.assertRaises(FileNotFoundError):
            openhpu.load("/nowhere/model.recipe")
        with self.assertRaises(openhpu.Error):
            openhpu.load(b"no recipe")
        with self.assertRaises(NotImplementedError) as caught:
            openhpu.compile(os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx"))
        self.assertEqual({one["op"] for one in caught.exception.unsupported}, {"FrobnicateTensor", "GlorpReduce", "ZorkConv"})
        with self.assertRaisesRegex(ValueError, "gaudi9"):
            openhpu.compile(MODEL, target="gaudi9")
        with self.assertRaisesRegex(ValueError, "opt_level 7"):
            openhpu.compile(MODEL, opt_level=7)
        with self.assertRaisesRegex(ValueError, "search_effort=-1 is not in 0..1000"):
            openhpu.compile(MODEL, search_effort=-1)
        with self.assertRaises(TypeError):
            openhpu.compile(MODEL, shapes={"image": (1.5,)})
        with self.assertRaises(LookupError):
            openhpu.Device(99)
        with self.assertRaises(TypeError):
            openhpu.Session(self.file)
        with self.assertRaisesRegex(openhpu.FailedPreconditionError, "for gaudi2, the device is a gaudi3"):
            openhpu.Session(self.recipe, openhpu.Device(target="gaudi3"))
        with self.assertRaises(MemoryError):
            self.session.device.allocate(1 << 50, "u8")
        for shape, why in ((-1, "at least 0"), ((-2, -3), "at least 0"), ((1 << 40, 1 << 40), "no device has them"),
                           ((1 << 31, 1 << 31, 4), "no device has them"), ((1 << 62,), "no device has them")):
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, why):
                self.session.device.allocate(shape)
        with self.assertRaisesRegex(ValueError, "no type 'complex64'"):
            self.session.device.allocate(4, "complex64")
        closed = openhpu.Session(self.recipe, self.session.device)
        closed.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            closed.run(self.images)
        error = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(error), error.code, len(error.unsupported)), (openhpu.UnimplementedError, "UNIMPLEMENTED", 3))

    def test_errors_name_the_parameters_of_python(self):
        dynamic = os.path.join(DIGITS, "model_dynamic.onnx")
        copy = os.path.join(self.work.name, "a model.onnx")
        shutil.copy(MODEL, copy)
        anonymous = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, (None, 3))],
                             [("y", TensorProto.FLOAT, None)])
        bare = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, None)], [("y", TensorProto.FLOAT, None)])
        large = model_of([helper.make_node("MatMul", ["a", "b"], ["c"])],
                         [(name, TensorProto.FLOAT, (1 << 17, 1 << 17)) for name in "ab"], [("c", TensorProto.FLOAT, None)])
        other = openhpu.compile(MODEL, target="gaudi3").to_bytes()
        for use, words in (
                (lambda: openhpu.compile(dynamic), 'give their sizes: dims={"batch": SIZE}'),
                (lambda: openhpu.compile(dynamic, dims={"bach": 3}), 'dims={"bach": 3}: no free dimension'),
                (lambda: openhpu.compile(dynamic, shapes={"image": (8, 1, 8, 9)}), 'shapes={"image": (8, 1, 8, 9)}: '),
                (lambda: openhpu.compile(anonymous), 'dims={"x_dim0": SIZE}'),
                (lambda: openhpu.compile(bare), 'shapes={"x": SIZES}'),
                (lambda: openhpu.compile(MODEL, target="gaudi1", precision="f16"), "choose another precision or target"),
                (lambda: openhpu.compile(MODEL, keep_f32="Nowhere", precision="bf16"), "of keep_f32 is neither"),
                (lambda: openhpu.compile(MODEL, keep_f32="qqqqqq", precision="bf16"), '; reports="fusion" names the nodes'),
                (lambda: openhpu.compile(MODEL, reports="memroy"), "did you mean 'memory'?"),
                (lambda: openhpu.compile(MODEL, precision="fp8", ranges={"nothing": 1}), "calibrate this model"),
                (lambda: openhpu.compile(large), '(dims, shapes) or precision="bf16", or another target with more memory'),
                (lambda: openhpu.calibrate(MODEL, [[self.images]], precision="bf16"), 'is for precision="fp8" and "fp8_e5m2"'),
                (lambda: openhpu.calibrate(dynamic, [[self.images]]), 'give their sizes: dims={"batch": SIZE}'),
                (lambda: openhpu.verify(dynamic), 'give their sizes: dims={"batch": SIZE}'),
                (lambda: openhpu.compile(os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx")),
                 "openhpu.supported_ops() shows"),
                (lambda: openhpu.load(copy), f"'{copy}' is a model, not a recipe; compile it first: openhpu.compile(\"{copy}\")"),
                (lambda: openhpu.load(onnx.load(MODEL).SerializeToString()), "openhpu.compile(MODEL)"),
                (lambda: openhpu.load(other[:-1]), 'openhpu.compile(MODEL, target="gaudi3")'),
                (lambda: self.session.verify([self.images], [self.expected], rtol=-1), "rtol=-1 is not a tolerance")):
            with self.subTest(words=words):
                with self.assertRaises(openhpu.Error) as caught:
                    use()
                self.assertIn(words, str(caught.exception))
                self.assertNotIn("--", str(caught.exception))
                self.assertNotIn("CompileOptions", str(caught.exception))
        [warning] = openhpu.compile(MODEL, cache="/proc/none").report["warnings"]
        self.assertTrue(warning.endswith("choose another cache"), warning)
        cache = os.path.join(self.work.name, "cache")
        openhpu.compile(MODEL, cache=cache)
        for folder, _, names in os.walk(cache):
            for name in names:
                os.truncate(os.path.join(folder, name), 1000)
        [warning] = openhpu.compile(MODEL, cache=cache).report["warnings"]
        self.assertIn("is damaged", warning)
        self.assertNotIn("compile the model again", warning)  # It was.

    def test_numbers_that_are_none_or_too_large_are_refused_in_plain_words(self):
        future = self.session.run_async(self.images)
        compilation = openhpu.compile_async(MODEL)
        dynamic = os.path.join(DIGITS, "model_dynamic.onnx")
        for use, kind, words in (
                (lambda: openhpu.compile(dynamic, dims={"batch": 2 ** 70}), ValueError, "dims['batch']=1180591620717411303424"),
                (lambda: openhpu.compile(dynamic, shapes={"image": (2 ** 70, 1, 8, 8)}), ValueError, "shapes['image'][0]="),
                (lambda: openhpu.compile(dynamic, dims={"batch": "2"}), TypeError, "dims['batch'] is an integer, not str"),
                (lambda: openhpu.compile(MODEL, opt_level=2 ** 40), ValueError, "opt_level="),
                (lambda: openhpu.random_inputs(self.recipe, 2 ** 64), ValueError, "seed="),
                (lambda: openhpu.random_inputs(self.recipe, "1"), TypeError, "seed is an integer, not str"),
                (lambda: future.result("1"), TypeError, "timeout is a number of seconds or None, not str"),
                (lambda: future.result(float("nan")), ValueError, "timeout=nan"),
                (lambda: compilation.result("1"), TypeError, "timeout is a number of seconds or None, not str"),
                (lambda: compilation.result(float("nan")), ValueError, "timeout=nan"),
                (lambda: self.session.run(self.images, timeout=float("nan")), ValueError, "timeout=nan"),
                (lambda: openhpu.Device(index="0"), TypeError, "index is an integer, not str"),
                (lambda: openhpu.Device(index=2 ** 40), ValueError, "index="),
                (lambda: openhpu.Device(target=2), TypeError, "target is a name, not int"),
                (lambda: openhpu.Device(hbm_bytes=2 ** 70), ValueError, "hbm_bytes=")):
            with self.subTest(words=words):
                with self.assertRaises(kind) as caught:
                    use()
                self.assertIn(words, str(caught.exception))
                self.assertNotIn("Invoked with", str(caught.exception))
        future.result(np.float32(60))
        compilation.result(np.int64(100))
        # As hpu-run --input rand:-1.
        path = os.path.join(self.work.name, "seed.recipe")
        self.recipe.save(path)
        folder = os.path.join(self.work.name, "seeded")
        subprocess.run([os.path.join(BUILD, "bin", "hpu-run"), path, "--quiet", "--input", "rand:-1", "--output", folder], check=True,
                       timeout=120)
        [logits] = self.session.run(*openhpu.random_inputs(self.recipe, -1).values())
        np.testing.assert_array_equal(logits, np.load(os.path.join(folder, "output_0.npy")))

    def test_errors_of_models_in_memory_name_no_file(self):
        proto = onnx.load(os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx"))
        for model, words in ((b"abc", "the model given as bytes: not an ONNX model"), (proto, "the model given as a proto")):
            for use in (openhpu.compile, openhpu.verify, lambda model: openhpu.calibrate(model, [[self.images]])):
                with self.assertRaises(openhpu.Error) as caught:
                    use(model)
                self.assertIn(words, str(caught.exception))
                self.assertNotIn("model.onnx", str(caught.exception))

    def test_reports_and_profiles_name_no_options_of_the_tools(self):
        def texts(value):
            if isinstance(value, dict):
                return [text for one in value.values() for text in texts(one)]
            return [text for one in value for text in texts(one)] if isinstance(value, (list, tuple)) else [str(value)]
        reports = ["precision", "fusion", "layout", "tile", "memory", "schedule", "time"]
        node = "/features/features.0/features.0.0/Conv"
        report = openhpu.compile(MODEL, precision="fp8", reports=reports, explain=node).report
        profile = self.session.profile(self.images, iters=1)
        self.assertIn('openhpu.compile(MODEL, reports="fusion")', " ".join(profile["trace"]["advice"]))
        for text in texts(report) + texts(profile):
            self.assertNotRegex(text, r"(?:^|[\s(])--[a-z]")
            self.assertNotIn("CompileOptions", text)

    def test_failures_of_work_say_where(self):
        device = openhpu.Device()
        session = openhpu.Session(self.recipe, device)
        device.inject("uncorrected_ecc")
        with self.assertRaises(openhpu.DataLossError) as caught:
            session.run(self.images)
        self.assertEqual(caught.exception.work["device"], device.index)
        np.testing.assert_array_equal(session.run(self.images)[0], self.outputs)

    def test_waits_end_by_timeout_and_by_ctrl_c_and_leave_the_rest_alone(self):
        device = openhpu.Device()
        session = openhpu.Session(self.recipe, device)
        for _ in range(20):  # So that runs are known to be short.
            session.run(self.images)
        device.inject("endless_command")
        future = session.run_async(self.images)
        with self.assertRaises(TimeoutError) as caught:
            future.result(timeout=0.1)
        self.assertIn("not done after 0.1 s", str(caught.exception))
        self.assertFalse(future.done())
        with self.interrupted(0.1), self.assertRaises(KeyboardInterrupt):
            session.run(self.images)
        device.reset()
        with self.assertRaises(openhpu.CancelledError):
            future.result()
        np.testing.assert_array_equal(session.run(self.images)[0], self.outputs)

    def test_forked_children_are_told_and_can_open_devices_of_their_own(self):
        here, there = multiprocessing.get_context("fork").Pipe()
        inherited = self.session.run_async(self.images)
        child = os.fork()
        if child == 0:
            try:
                said = []
                for call in (lambda: self.session.run(self.images), inherited.result):
                    try:
                        call()
                        said.append("no error")
                    except openhpu.Error as error:
                        said.append(error.code)
                with openhpu.Session(openhpu.compile(MODEL)) as own:
                    said.append(np.array_equal(own.run(self.images)[0], self.outputs))
                there.send(said)
            finally:
                os._exit(0)
        self.assertTrue(here.poll(60), "the child says nothing")
        self.assertEqual(here.recv(), ["FAILED_PRECONDITION", "FAILED_PRECONDITION", True])
        os.waitpid(child, 0)
        np.testing.assert_array_equal(inherited.result()[0], self.outputs)

    def test_a_program_can_end_while_work_is_in_flight(self):
        code = f"""if True:
            import sys
            sys.path.insert(0, {os.path.join(BUILD, "python")!r})
            import openhpu
            session = openhpu.Session(openhpu.load({self.file!r}))
            if "stuck" in sys.argv:
                session.device.inject("endless_command")
            if len(sys.argv) > 1:
                openhpu._session._END_SECONDS = 0.1 if "stuck" in sys.argv else 0
            futures = [session.run_async(openhpu.random_inputs(session.recipe)) for _ in range(20)]
            print("ends")"""
        for more in ([], ["stuck"], ["late"], ["late"]):
            done = subprocess.run([sys.executable, "-c", code, *more], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "ends", ""))


if __name__ == "__main__":
    unittest.main()
