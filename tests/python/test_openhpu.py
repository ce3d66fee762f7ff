# SPDX-License-Identifier: Apache-2.0
"""The Python package of the build tree, beside the tools and numpy."""

import ast
import asyncio
import contextlib
import inspect
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(BUILD, "python"))
import openhpu  # noqa: E402

DIGITS = os.path.join(ROOT, "tests", "models", "digits")
MODEL = os.path.join(DIGITS, "model.onnx")
DATA = os.path.join(DIGITS, "test_data_set_0")


def tensor(name):
    return numpy_helper.to_array(onnx.load_tensor(os.path.join(DATA, name)))


def tool(name, *arguments):
    """The JSON of a tool."""
    result = subprocess.run([os.path.join(BUILD, "bin", name), *arguments, "--json"], capture_output=True, text=True,
                            timeout=120, check=False)
    return json.loads(result.stdout)


def model_of(nodes, inputs, outputs):
    """A small model; inputs and outputs as (name, TensorProto type, shape)."""
    info = lambda one: helper.make_tensor_value_info(*one)
    graph = helper.make_graph(nodes, "g", [info(one) for one in inputs], [info(one) for one in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def add_model(kind=TensorProto.FLOAT, shape=(2, 3)):
    return model_of([helper.make_node("Add", ["a", "b"], ["c"])], [("a", kind, shape), ("b", kind, shape)], [("c", kind, shape)])


def long_model(layers=400):
    """One that compiles for long enough to be interrupted."""
    names = ["x"] + [f"y{i}" for i in range(layers)]
    nodes = [helper.make_node("MatMul" if i % 2 else "Softmax", names[i:i + 1] * (1 + i % 2), names[i + 1:i + 2], f"n{i}")
             for i in range(layers)]
    return model_of(nodes, [("x", TensorProto.FLOAT, (256, 256))], [(names[-1], TensorProto.FLOAT, (256, 256))])


class Digits(unittest.TestCase):
    """One recipe and one session for all."""

    @classmethod
    def setUpClass(cls):
        cls.images, cls.expected = tensor("input_0.pb"), tensor("output_0.pb")
        cls.recipe = openhpu.compile(MODEL, target="gaudi2", reports=["fusion"])
        cls.session = openhpu.Session(cls.recipe)
        cls.work = tempfile.TemporaryDirectory(prefix="hpu-python-")
        cls.file = os.path.join(cls.work.name, "digits.recipe")
        cls.recipe.save(cls.file)
        cls.run_json = tool("hpu-run", cls.file, "--data", DATA, "--iters", "3", "--warmup", "1", "--output", cls.work.name)
        cls.outputs = np.load(os.path.join(cls.work.name, "output_0.npy"))

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        cls.work.cleanup()

    @contextlib.contextmanager
    def interrupted(self, seconds):
        """SIGALRM in place of SIGINT: what counts is that a handler which raises ends the wait."""
        def interrupt(*_):
            raise KeyboardInterrupt
        old = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    def test_run_gives_the_bits_of_hpu_run(self):
        by_name = self.session.run({"image": self.images})
        self.assertEqual(list(by_name), ["logits"])
        np.testing.assert_array_equal(by_name["logits"], self.outputs)
        [by_order] = self.session.run(self.images)
        np.testing.assert_array_equal(by_order, self.outputs)
        np.testing.assert_allclose(by_order, self.expected, rtol=1e-3, atol=1e-4)

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

    # --- asynchronously

    def test_asynchronous_runs_give_the_same_and_keep_their_inputs(self):
        images = self.images.copy()
        first = self.session.run_async({"image": images})
        images[:] = 0
        self.assertEqual(first.result(60)["logits"].tobytes(), self.outputs.tobytes())
        self.assertTrue(first.done())
        self.assertIsNone(first.exception())
        self.assertIs(first.result(), first.result())
        shares = self.images.copy()
        second = self.session.run_async(shares[:])
        shares[:] = 0
        np.testing.assert_array_equal(second.result()[0], self.outputs)

    def test_futures_can_be_awaited(self):
        async def several():
            return await asyncio.gather(*(self.session.run_async(self.images) for _ in range(5)))
        for [logits] in asyncio.run(several()):
            np.testing.assert_array_equal(logits, self.outputs)

    def test_an_await_ends_when_it_is_cancelled_whatever_the_device_does(self):
        device = openhpu.Device()
        session = openhpu.Session(self.recipe, device)
        device.inject("endless_command")

        async def stuck():
            future = session.run_async(self.images)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(future, 0.1)
            self.assertFalse(future.done())
            twice = asyncio.gather(future, future, return_exceptions=True)
            await asyncio.sleep(0.05)
            device.reset()
            return await twice
        for error in asyncio.run(stuck()):
            self.assertIsInstance(error, openhpu.CancelledError)
        np.testing.assert_array_equal(session.run(self.images)[0], self.outputs)

    def test_ctrl_c_ends_an_await(self):
        code = f"""if True:
            import asyncio, os, signal, sys, threading
            sys.path.insert(0, {os.path.join(BUILD, "python")!r})
            import openhpu
            session = openhpu.Session(openhpu.load({self.file!r}))
            session.device.inject("endless_command")
            openhpu._session._END_SECONDS = 0.1
            async def wait():
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                await session.run_async(openhpu.random_inputs(session.recipe))
            try:
                asyncio.run(wait())
            except KeyboardInterrupt:
                print("interrupted")"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, HPU_WAIT_TIMEOUT_MS="600000"))
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "interrupted", ""))

    def test_dropped_futures_leave_their_memory_alone(self):
        for _ in range(30):
            self.session.run_async(self.images)
        with openhpu.Session(self.recipe, self.session.device) as other:
            for _ in range(5):
                other.run_async(self.images)
        np.testing.assert_array_equal(self.session.run(self.images)[0], self.outputs)

    def test_threads_share_a_session(self):
        failures = []

        def work(first):
            mine = np.roll(self.images, first, axis=0)
            for _ in range(5):
                if not np.array_equal(self.session.run(mine)[0], np.roll(self.outputs, first, axis=0)):
                    failures.append(first)
        threads = [threading.Thread(target=work, args=(36 * i,)) for i in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failures, [])

    def test_other_threads_go_on_while_it_compiles(self):
        seen, ends = [], threading.Event()

        def count():
            while not ends.is_set():
                seen.append(None)
                time.sleep(0.001)
        counter = threading.Thread(target=count)
        counter.start()
        before = len(seen)
        openhpu.compile(MODEL)
        after = len(seen)
        ends.set()
        counter.join()
        self.assertGreater(after - before, 5)

    # --- compiling beside the program

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

    # --- profile and verify

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

    def test_profile_agrees_with_hpu_run(self):
        with openhpu.Session(self.recipe, openhpu.Device()) as session:
            told = session.profile(self.images, iters=3)
        self.assertLessEqual(set(self.run_json) - {"compile_ms", "passed", "outputs", "interrupted"}, set(told))
        for key in ("device_time_us", "h2d_us", "d2h_us", "h2d_bytes", "d2h_bytes", "engine_busy", "iterations", "target"):
            self.assertEqual(told[key], self.run_json[key], key)
        self.assertEqual(set(told["host_latency_ms"]), set(self.run_json["host_latency_ms"]))

    def test_ctrl_c_ends_a_profile_between_runs(self):
        with self.interrupted(0.2), self.assertRaises(KeyboardInterrupt):
            self.session.profile(self.images, iters=10**6)
        np.testing.assert_array_equal(self.session.run(self.images)[0], self.outputs)

    def test_profile_says_what_hpu_trace_says(self):
        trace = os.path.join(self.work.name, "run.hputrace")
        tool("hpu-run", self.file, "--data", DATA, "--trace", trace)
        summary = tool("hpu-trace", "summary", trace, "--top", "3")
        told = self.session.profile(self.images, iters=1, top=3)["trace"]
        self.assertEqual(set(told), set(summary))
        names = lambda rows: [(row["name"], row["engine"]) for row in rows]
        self.assertEqual(names(told["top"]), names(summary["top"]))
        self.assertEqual(told["engines"]["mme"]["busy_us"], summary["engines"]["mme"]["busy_us"])

    def test_traces_are_files_of_hpu_trace(self):
        path = os.path.join(self.work.name, "mine.hputrace")
        with self.assertRaises(openhpu.NotFoundError):
            with openhpu.trace(os.path.join(self.work.name, "nowhere", "mine.hputrace")):
                pass
        with openhpu.trace(path):
            self.session.run(self.images)
            self.assertIsNone(self.session.profile(self.images, iters=1)["trace"])
            with self.assertRaises(openhpu.FailedPreconditionError):
                with openhpu.trace(path):
                    pass
        self.assertGreaterEqual(tool("hpu-trace", "summary", path)["launches"], 1)

    def test_a_trace_keeps_what_was_recorded_before_an_exception(self):
        path = os.path.join(self.work.name, "cut.hputrace")
        with self.assertRaises(KeyError):
            with openhpu.trace(path):
                self.session.run(self.images)
                raise KeyError("the body's")
        self.assertEqual(tool("hpu-trace", "summary", path)["launches"], 1)
        with self.assertRaises(KeyError) as caught:
            with openhpu.trace(os.path.join(self.work.name, "nowhere", "cut.hputrace")):
                raise KeyError("the body's")
        if sys.version_info >= (3, 11):
            self.assertIn("was not written", caught.exception.__notes__[0])
        with openhpu.trace(path):  # It is not in the way of the next one.
            pass

    def test_verify_agrees_with_hpu_verify(self):
        same = lambda one, other: self.assertEqual(
            one, {"passed": other["passed"], "outputs": [{k: v for k, v in o.items() if k != "data"} for o in other["outputs"]]})
        same(openhpu.verify(MODEL, {"image": self.images}, {"logits": self.expected}), tool("hpu-verify", MODEL, "--data", DATA))
        same(openhpu.verify(MODEL, [self.images]), tool("hpu-verify", MODEL, "--data", DATA, "--ref", "interp"))
        same(openhpu.verify(MODEL, {"image": self.images}, [self.expected], precision="bf16"),
             tool("hpu-verify", MODEL, "--data", DATA, "--precision", "bf16"))
        same(openhpu.verify(MODEL, seed=7), tool("hpu-verify", MODEL, "--input", "rand:7", "--ref", "interp"))

    def test_verify_finds_one_wrong_number(self):
        wrong = self.expected.copy()
        wrong[3, 4] += 1
        result = self.session.verify({"image": self.images}, [wrong])
        self.assertFalse(result["passed"])
        self.assertEqual(result["outputs"][0]["wrong"], 1)
        self.assertTrue(self.session.verify([self.images], {"logits": wrong}, atol=1)["passed"])
        for name, value in (("rtol", -1), ("atol", -0.5), ("rtol", float("nan")), ("atol", float("inf"))):
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, f"{name}={value} is not a tolerance"):
                self.session.verify([self.images], [wrong], **{name: value})
        self.assertIn("shape", self.session.verify([self.images], [wrong[:2]])["outputs"][0]["note"])

    # --- device memory

    def test_launches_work_on_memory_of_the_device(self):
        device = self.session.device
        image, scores = device.to_device(self.images), device.allocate((360, 10), np.float32)
        self.assertIs(self.session.launch([image], {"logits": scores}).result()["logits"], scores)
        np.testing.assert_array_equal(scores.numpy(), self.outputs)
        np.testing.assert_array_equal(np.asarray(image), self.images)
        self.assertEqual((scores.shape, scores.dtype, scores.nbytes), ((360, 10), "f32", 14400))
        with self.assertRaisesRegex(openhpu.InvalidArgumentError, "output 'logits' is f32 360x10, but .* f32 360x1x8x8"):
            self.session.launch([image], [image])
        used = device.memory["used_bytes"]
        del image
        self.assertLess(device.memory["used_bytes"], used)

    def test_buffers_hold_small_floats(self):
        values = np.array([1.0, -2.5, 448.0, 1e-3], np.float32)
        for dtype in ("bf16", "f8e4m3", "f8e5m2"):
            buffer = self.session.device.to_device(values, dtype)
            np.testing.assert_array_equal(buffer.numpy(raw=True), openhpu.to_bits(values, dtype))
            np.testing.assert_array_equal(buffer.numpy(), openhpu.from_bits(openhpu.to_bits(values, dtype), dtype))

    # --- errors

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

    def test_layout_and_byte_order_of_arrays_do_not_matter(self):
        for images in (np.asfortranarray(self.images), np.repeat(self.images, 2, axis=0)[::2], self.images.astype(">f4"),
                       self.images[::-1][::-1], self.images.tolist()):
            np.testing.assert_array_equal(self.session.run(images)[0], self.outputs)

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
        other = openhpu.compile(MODEL, target="gaudi3").to_bytes()
        for use, words in (
                (lambda: openhpu.compile(dynamic), 'give their sizes: dims={"batch": SIZE}'),
                (lambda: openhpu.compile(dynamic, dims={"bach": 3}), 'dims={"bach": 3}: no free dimension'),
                (lambda: openhpu.compile(dynamic, shapes={"image": (8, 1, 8, 9)}), 'shapes={"image": (8, 1, 8, 9)}: '),
                (lambda: openhpu.compile(anonymous), 'dims={"x_dim0": SIZE}'),
                (lambda: openhpu.compile(bare), 'shapes={"x": SIZES}'),
                (lambda: openhpu.compile(MODEL, target="gaudi1", precision="f16"), "choose another precision or target"),
                (lambda: openhpu.compile(MODEL, keep_f32="Nowhere", precision="bf16"), "of keep_f32 is neither"),
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

    # --- processes

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


class Types(unittest.TestCase):
    def test_every_type_of_numpy_goes_in_and_out(self):
        for kind in (np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                     np.uint64, np.bool_):
            onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind)) if hasattr(helper, "np_dtype_to_tensor_dtype") \
                else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(kind)]
            model = model_of([helper.make_node("Transpose", ["a"], ["c"], perm=[1, 0])],
                             [("a", onnx_type, (2, 3))], [("c", onnx_type, (3, 2))])
            value = (np.arange(6).reshape(2, 3) % 2 if kind is np.bool_ else np.arange(6).reshape(2, 3)).astype(kind)
            with self.subTest(kind=kind.__name__):
                try:
                    recipe = openhpu.compile(model)
                except openhpu.UnimplementedError:
                    continue  # A type that the compiler refuses by name.
                [out] = openhpu.Session(recipe).run(value)
                self.assertEqual(out.dtype, np.dtype(kind))
                np.testing.assert_array_equal(out, value.T)

    def test_bf16_is_float32_or_bits(self):
        recipe = openhpu.compile(add_model(TensorProto.BFLOAT16))
        self.assertEqual([one.dtype for one in recipe.inputs + recipe.outputs], ["bf16"] * 3)
        session = openhpu.Session(recipe)
        a, b = np.float32([[1, 2, 3], [3e4, -4, 0.1]]), np.float32([[1, 1, 1], [3e4, 4, 0.2]])
        bits_a, bits_b = openhpu.to_bits(a, "bf16"), openhpu.to_bits(b, "bf16")
        [sums] = session.run(a, b)
        self.assertEqual(sums.dtype, np.float32)
        [bits] = session.run(bits_a, bits_b, raw=True)
        self.assertEqual(bits.dtype, np.uint16)
        np.testing.assert_array_equal(openhpu.from_bits(bits, "bf16"), sums)
        exact = openhpu.from_bits(bits_a, "bf16") + openhpu.from_bits(bits_b, "bf16")
        np.testing.assert_array_equal(bits, openhpu.to_bits(exact, "bf16"))
        with self.assertRaisesRegex(ValueError, "input 'a' is bf16 .numpy float32, or uint16 bits., but an array of float16"):
            session.run(a.astype(np.float16), b)

    def test_bits_are_those_of_the_formats(self):
        # bf16 is the upper half of f32, rounded to nearest, ties to even.
        values = np.float32([1.0, 1.00390625, 1.01171875, -0.0, np.inf, 3.4e38])
        wide = values.view(np.uint32).astype(np.uint64)
        rounded = ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)
        np.testing.assert_array_equal(openhpu.to_bits(values, "bf16"), rounded)
        # fp8 against the formats' definitions, over all codes that are numbers.
        for name, exponent, mantissa, special in (("f8e4m3", 4, 3, 1), ("f8e5m2", 5, 2, 4), ("f8e4m3ieee", 4, 3, 8)):
            codes = np.arange(128 - special, dtype=np.uint8)
            e, m = codes >> mantissa, (codes & (1 << mantissa) - 1).astype(float)
            bias = (1 << exponent - 1) - 1
            number = np.where(e == 0, m * 2.0 ** (1 - bias - mantissa),
                              (1 + m / (1 << mantissa)) * 2.0 ** (e.astype(float) - bias)).astype(np.float32)
            np.testing.assert_array_equal(openhpu.from_bits(codes, name), number)
            np.testing.assert_array_equal(openhpu.to_bits(number, name), codes)
            self.assertEqual(openhpu.from_bits(openhpu.to_bits(np.float32(1e9), name), name), number[-1])
        with self.assertRaises(ValueError):
            openhpu.to_bits(values, "f32")

    def test_scalars_and_empty_tensors(self):
        scalar = openhpu.Session(openhpu.compile(add_model(shape=())))
        [total] = scalar.run(1.5, np.float32(2))
        self.assertEqual((total.shape, float(total)), ((), 3.5))


class Stubs(unittest.TestCase):
    """openhpu/__init__.pyi and the package name the same things, with the same parameters."""

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(BUILD, "python", "openhpu", "__init__.pyi"), encoding="utf-8") as file:
            cls.tree = ast.parse(file.read())

    @staticmethod
    def parameters(function):
        """[(name, kind, has a default)] of a stub's function."""
        arguments = function.args
        positional = arguments.posonlyargs + arguments.args
        without = len(positional) - len(arguments.defaults)
        result = [(one.arg, "positional", i >= without) for i, one in enumerate(positional)]
        result += [(arguments.vararg.arg, "*", False)] if arguments.vararg else []
        result += [(one.arg, "keyword", default is not None) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
        return result + ([(arguments.kwarg.arg, "**", False)] if arguments.kwarg else [])

    @staticmethod
    def real(function):
        kinds = {inspect.Parameter.POSITIONAL_ONLY: "positional", inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
                 inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_KEYWORD: "**"}
        return [(one.name, kinds[one.kind], one.default is not inspect.Parameter.empty)
                for one in inspect.signature(function).parameters.values()]

    def check(self, where, function, stub):
        self.assertEqual(self.parameters(stub), self.real(function), where)

    @staticmethod
    def members(body):
        """{name: its last definition}, of overloads the general one."""
        found = {}
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = node
            elif isinstance(node, ast.AnnAssign):
                found[node.target.id] = node
        return found

    def test_names_are_the_same(self):
        names = {name for name in self.members(self.tree.body) if not name.startswith("_")}
        self.assertEqual(names, set(openhpu.__all__))
        public = {name for name in vars(openhpu) if not name.startswith("_") and not inspect.ismodule(vars(openhpu)[name])}
        self.assertEqual(public, set(openhpu.__all__))

    def test_members_and_parameters_are_the_same(self):
        for name, node in self.members(self.tree.body).items():
            value = openhpu._tensors.Tensor if name == "_Tensor" else getattr(openhpu, name)
            if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "_Tensor" for base in node.bases):
                self.assertEqual(value.__bases__, (openhpu._tensors.Tensor,), name)
            if isinstance(node, ast.FunctionDef):
                self.check(name, value, node)
            if not isinstance(node, ast.ClassDef):
                continue
            stubs = self.members(node.body)
            special = {"__init__", "__enter__", "__exit__", "__await__", "__array__", "__dlpack__", "__dlpack_device__"}
            own = {key for key in vars(value) if not key.startswith("_") or key in special}
            if issubclass(value, tuple):
                own -= {"count", "index"} | {key for key in special}
                stubs = {key: stub for key, stub in stubs.items() if key not in special}
            if issubclass(value, openhpu.Error):
                own |= {"message", "work", "unsupported"} if value is openhpu.Error else set()
                own -= set() if value is openhpu.Error else {"code"}
            self.assertEqual(set(stubs), own, name)
            for key, stub in stubs.items():
                member = vars(value).get(key)
                if isinstance(stub, ast.FunctionDef) and inspect.isfunction(member):
                    self.check(f"{name}.{key}", member, stub)
                elif isinstance(stub, ast.FunctionDef):
                    self.assertIsInstance(member, property, f"{name}.{key}")

    def test_everything_is_documented(self):
        self.assertTrue(os.path.exists(os.path.join(BUILD, "python", "openhpu", "py.typed")))
        for name in openhpu.__all__:
            value = getattr(openhpu, name)
            if not (inspect.isclass(value) and issubclass(value, openhpu.Error)):
                self.assertTrue(inspect.getdoc(value), name)


if __name__ == "__main__":
    unittest.main()
