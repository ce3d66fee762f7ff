# SPDX-License-Identifier: Apache-2.0
"""The Python package: runs, futures, memory, figures and traces, beside the tools and numpy."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np

from openhpu_cases import BUILD, DATA, Digits, MODEL, openhpu, tool


class Runs(Digits):
    """The results and figures of hpu-run, hpu-verify and hpu-trace."""

    def test_run_gives_the_bits_of_hpu_run(self):
        by_name = self.session.run({"image": self.images})
        self.assertEqual(list(by_name), ["logits"])
        np.testing.assert_array_equal(by_name["logits"], self.outputs)
        [by_order] = self.session.run(self.images)
        np.testing.assert_array_equal(by_order, self.outputs)
        np.testing.assert_allclose(by_order, self.expected, rtol=1e-3, atol=1e-4)

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

    def test_a_process_ends_while_daemon_threads_compile_and_run(self):
        work = {"compile": f"openhpu.compile({MODEL!r}, opt_level=3)",
                "run": "session.run(images)"}
        for name, call in work.items():
            code = f"""if True:
                import sys, threading, time
                sys.path.insert(0, {os.path.join(BUILD, "python")!r})
                import openhpu
                session = openhpu.Session(openhpu.load({self.file!r}))
                images = openhpu.random_inputs(session.recipe)
                begun = threading.Event()
                def work():
                    while True:
                        begun.set()
                        {call}
                for _ in range(2):
                    threading.Thread(target=work, daemon=True).start()
                begun.wait()
                time.sleep(float(sys.argv[1]))
                sys.exit(3)"""
            for delay in ("0", "0.03", "0.1"):
                with self.subTest(work=name, delay=delay):
                    done = subprocess.run([sys.executable, "-c", code, delay], capture_output=True, text=True, timeout=120,
                                          check=False)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))

    def test_a_process_ends_while_a_compilation_goes_on(self):
        code = f"""if True:
            import sys
            sys.path.insert(0, {os.path.join(BUILD, "python")!r})
            import openhpu
            compilation = openhpu.compile_async({MODEL!r}, opt_level=3)
            sys.exit(3)"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))

    def test_dropped_futures_leave_their_memory_alone(self):
        for _ in range(30):
            self.session.run_async(self.images)
        with openhpu.Session(self.recipe, self.session.device) as other:
            for _ in range(5):
                other.run_async(self.images)
        np.testing.assert_array_equal(self.session.run(self.images)[0], self.outputs)

    def test_a_wait_whose_time_ends_as_the_run_does_is_no_failure_of_the_run(self):
        """The run may be done between the end of a wait and the look whether it is. Waiting without any time meets that often."""
        for _ in range(300):
            future = self.session.run_async(self.images)
            done = False
            while not done:
                try:
                    future.result(timeout=0)
                    done = True
                except openhpu.DeadlineExceededError:
                    done = future.done()
            np.testing.assert_array_equal(future.result()[0], self.outputs)

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
        folder = os.path.join(self.work.name, "gone")
        os.mkdir(folder)
        with mock.patch("tempfile.tempdir", self.work.name), self.assertRaises(KeyError) as caught:
            with openhpu.trace(os.path.join(folder, "cut.hputrace")):
                os.rmdir(folder)
                raise KeyError("the body's")
        if sys.version_info >= (3, 11):
            self.assertIn("was not written", caught.exception.__notes__[0])
        with openhpu.trace(path):  # It is not in the way of the next one.
            pass

    def test_a_trace_that_cannot_be_written_is_an_error_before_its_body(self):
        nowhere = os.path.join(self.work.name, "nowhere", "mine.hputrace")
        before = os.listdir(self.work.name)
        for path, kind, words in ((nowhere, FileNotFoundError, "No such file or directory"),
                                  ("", openhpu.InvalidArgumentError, "needs the name of a file"),
                                  (self.work.name, openhpu.InvalidArgumentError, "it is a directory"),
                                  ("/proc/x.hputrace", openhpu.NotFoundError, "'/proc/x.hputrace'"),
                                  (os.path.join(self.file, "x"), openhpu.NotFoundError, "Not a directory"),
                                  (os.path.join(self.work.name, "n" * 300), openhpu.InvalidArgumentError, "name too long")):
            with self.subTest(path=path[:40]), self.assertRaisesRegex(openhpu.Error, words) as caught:
                with openhpu.trace(path):
                    self.fail("the body ran")
            self.assertIsInstance(caught.exception, kind)
        self.assertEqual(os.listdir(self.work.name), before)
        with openhpu.trace(os.devnull):
            pass

    def test_a_recording_whose_file_has_become_impossible_is_kept_elsewhere(self):
        folder = os.path.join(self.work.name, "removed")
        for suffix in (".hputrace", ".json"):
            os.mkdir(folder)
            with mock.patch("tempfile.tempdir", self.work.name), self.assertRaises(openhpu.NotFoundError) as caught:
                with openhpu.trace(os.path.join(folder, "a" + suffix)):
                    self.session.run(self.images)
                    os.rmdir(folder)
            kept = re.search("; the recording is in '(.+)' instead", str(caught.exception)).group(1)
            self.assertTrue(kept.endswith(suffix))
            if suffix == ".hputrace":
                self.assertEqual(tool("hpu-trace", "summary", kept)["launches"], 1)
            self.assertGreater(os.path.getsize(kept), 0)
        os.mkdir(folder)
        with mock.patch("tempfile.tempdir", folder), self.assertRaisesRegex(openhpu.NotFoundError, "the recording is lost"):
            with openhpu.trace(os.path.join(folder, "a.hputrace")):
                os.rmdir(folder)
        with openhpu.trace(os.path.join(self.work.name, "next.hputrace")):  # It is not in the way of the next one.
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

    def test_layout_and_byte_order_of_arrays_do_not_matter(self):
        for images in (np.asfortranarray(self.images), np.repeat(self.images, 2, axis=0)[::2], self.images.astype(">f4"),
                       self.images[::-1][::-1], self.images.tolist()):
            np.testing.assert_array_equal(self.session.run(images)[0], self.outputs)


if __name__ == "__main__":
    unittest.main()
