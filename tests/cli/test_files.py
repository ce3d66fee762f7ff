#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the tools write, what they never write over, and the documents and helps that describe them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from cli import BIN, DIGITS, MODEL, NO_COLUMNS, on_terminal, onnx, ROOT, run


class Files(unittest.TestCase):
    """What is written, and what never is."""

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name
        self.model = os.path.join(self.work, "m.onnx")
        shutil.copy(MODEL, self.model)

    def tool(self, code, *arguments, **options):
        result = run(*arguments, cwd=self.work, **options)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        return result

    @unittest.skipIf(onnx is None, "needs onnx")
    def test_a_narrow_state_takes_the_models_own_type(self):
        helper, numbers = onnx.helper, np.arange(48, dtype=np.float32).reshape(3, 16) / 4
        shapes = {"past": (3, 16), "x": (1, 16), "present": (4, 16), "y": (4, 16)}
        info = lambda names: [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shapes[name]) for name in names]
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["new"]), helper.make_node("Concat", ["past", "new"], ["present"], axis=0),
             helper.make_node("MatMul", ["present", "w"], ["y"])], "g", info(["past", "x"]), info(["y", "present"]),
            [onnx.numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                  os.path.join(self.work, "cache.onnx"))
        np.save(os.path.join(self.work, "past.npy"), numbers)
        np.save(os.path.join(self.work, "x.npy"), numbers[:1])
        for precision in ("bf16", "f16"):
            options = ["cache.onnx", "--precision", precision, "--state", "present=past", "--input", "past=@past.npy", "--input",
                       "x=@x.npy"]
            self.tool(0, "hpu-run", *options, "--output", ".")
            present = np.load(os.path.join(self.work, "output_1.npy"))
            np.testing.assert_array_equal(present.astype(np.float32), np.concatenate([numbers, numbers[:1]]))
            self.assertIn("passed", self.tool(0, "hpu-verify", *options, "--ref", "interp").stdout)

    def contents(self):
        found = {}
        for folder, _, names in os.walk(self.work):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.relpath(os.path.join(folder, name), self.work)] = file.read()
        return found

    def test_no_tool_writes_over_one_of_its_inputs(self):
        os.mkdir(os.path.join(self.work, "sub"))
        os.symlink("m.onnx", os.path.join(self.work, "link"))
        os.symlink(self.work, os.path.join(self.work, "sub", "up"))
        os.link(self.model, os.path.join(self.work, "hard"))
        self.tool(0, "hpu-run", "m.onnx", "--quiet", "--trace", "t.hputrace")
        self.tool(0, "hpu-compile", "m.onnx", "--quiet", "-o", "m.recipe")
        np.save(os.path.join(self.work, "output_0.npy"), np.zeros((360, 1, 8, 8), np.float32))
        shutil.copytree(DIGITS, os.path.join(self.work, "data"))
        for name in ("f.json", "f.svg"):
            with open(os.path.join(self.work, name), "w", encoding="utf-8") as file:
                file.write(self.tool(0, "hccl-sim", "all_reduce", "--nodes", "2", "--json").stdout)
        before = self.contents()
        spellings = ["m.onnx", "./m.onnx", "sub/../m.onnx", self.model, "link", "sub/up/m.onnx", "hard"]
        commands = [["hpu-compile", "m.onnx", "-o", path] for path in spellings]
        commands += [["hpu-compile", "link", "-o", "m.onnx"], ["hpu-run", "m.onnx", "--trace", "link"],
                     ["hpu-run", "m.recipe", "--trace", "m.recipe"],
                     ["hpu-run", "m.onnx", "--input", "image=@output_0.npy", "--output", "."],
                     ["hpu-run", "m.onnx", "--data", "data", "--trace", "data/test_data_set_0/input_0.pb"],
                     ["hpu-trace", "merge", "t.hputrace", "t.hputrace", "-o", "./t.hputrace"],
                     ["hpu-trace", "export", "t.hputrace", "-o", "t.hputrace"],
                     ["hpu-trace", "record", "-o", "m.onnx", "--", os.path.join(BIN, "hpu-run"), "m.onnx"],
                     ["hccl-sim", "all_reduce", "--topology", "f.svg", "--draw", "./f.svg"]]
        for command in commands:
            error = self.tool(1, *command).stderr
            self.assertRegex(error, r"would be written over the input '", command)
            self.assertEqual(self.contents(), before, command)
        error = self.tool(1, "hpu-run", "m.onnx", env=os.environ | {"HPU_TRACE": "m.onnx"}).stderr
        self.assertRegex(error, r"HPU_TRACE.* would be written over the input '")
        self.assertEqual(self.contents(), before)

    def test_what_is_wrong_with_inputs_and_options_is_said_before_anything_is_compiled(self):
        save = lambda name, array: np.save(os.path.join(self.work, name), array)
        save("type.npy", np.zeros((360, 1, 8, 8), np.float64))
        save("shape.npy", np.zeros((360, 1, 8, 9), np.float32))
        save("good.npy", np.zeros((360, 1, 8, 8), np.float32))
        data = os.path.join(self.work, "data")
        os.mkdir(data)
        with open(os.path.join(data, "input_0.pb"), "wb") as file:  # TensorProto: dims 2, float, 8 bytes.
            file.write(b"\x08\x02\x10\x01\x4a\x08" + bytes(8))
        for tool in ("hpu-run", "hpu-verify"):
            more = ["--ref", "interp"] if tool == "hpu-verify" else []
            for arguments, words in ((["--input", "image=@missing.npy"], "'missing.npy'"),
                                     (["--input", "@missing.npy"], "'missing.npy'"),
                                     (["--input", "image=@type.npy"], "'type.npy' holds 360x1x8x8xf64"),
                                     (["--input", "image=@shape.npy"], "'shape.npy' holds 360x1x8x9xf32"),
                                     (["--input", "picture=zeros"], "there is no input 'picture'"),
                                     (["--input", "image=rand:x"], "'x'"),
                                     (["--data", "data"], "has 2xf32")):
                error = self.tool(1, tool, "m.onnx", "--verbose", *more, *arguments).stderr
                self.assertIn(words, error, arguments)
                self.assertNotIn("  import ", error)  # A phase that has run.
        for arguments, words in ((["--device", "77"], "no device 77: a node has devices 0 to 7"),
                                 (["--driver", "foo"], "no driver 'foo'; this build has sim, null")):
            error = self.tool(1, "hpu-run", "m.onnx", "--verbose", *arguments).stderr
            self.assertIn(words, error)
            self.assertNotIn("  import ", error)
        error = self.tool(1, "hpu-compile", "m.onnx", "--verbose", "--sign", "missing").stderr
        self.assertIn("'missing'", error)
        self.assertNotIn("  import ", error)
        good = self.tool(0, "hpu-run", "m.onnx", "--verbose", "--input", "image=@good.npy", "--device", "0").stderr
        self.assertIn("  import ", good)

    def test_outputs_that_cannot_be_written_are_errors_before_any_work(self):
        longest = "n" * 255
        self.tool(0, "hpu-compile", "m.onnx", "-q", "-o", longest)
        self.tool(0, "hpu-run", longest, "-q", "--trace", "t" * 255)
        before = self.contents()
        for name in ("/proc/x", "n" * 256, "nowhere/x"):
            for command in (["hpu-compile", "m.onnx", "-o", name], ["hpu-run", "m.onnx", "--trace", name]):
                error = self.tool(1, *command, "--verbose").stderr
                self.assertIn(f"'{name}'", error)
                self.assertNotIn(".tmp", error)
                self.assertNotIn("  import ", error)
        self.assertEqual(self.contents(), before)

    @unittest.skipUnless(onnx, "needs Python's onnx")
    def test_external_data_is_an_input_too(self):
        model = onnx.load(MODEL)
        onnx.save(model, os.path.join(self.work, "e.onnx"), save_as_external_data=True, location="weights", size_threshold=0)
        before = self.contents()
        for command in (("hpu-compile", "e.onnx", "-o", "weights"), ("hpu-run", "e.onnx", "--trace", "weights")):
            self.assertIn("'weights' would be written over the input", self.tool(1, *command).stderr)
        self.assertEqual(self.contents(), before)

    def test_a_dash_is_stdout_and_all_else_is_on_stderr(self):
        def stdout(*arguments):
            return subprocess.run([os.path.join(BIN, arguments[0]), *arguments[1:]], capture_output=True, check=True,
                                  timeout=120, cwd=self.work)
        self.tool(0, "hpu-compile", "m.onnx", "-o", "m.recipe", "--target", "gaudi2", "--quiet")
        files = self.contents()
        result = stdout("hpu-compile", "m.onnx", "-o", "-", "--target", "gaudi2")
        self.assertEqual(result.stdout, files["m.recipe"])
        self.assertIn(b"compiled in", result.stderr)
        self.assertNotIn("-", self.contents())
        with open(os.path.join(self.work, "r.recipe"), "wb") as file:  # As the shell does it: the file is there.
            subprocess.run([os.path.join(BIN, "hpu-compile"), self.model, "-o", "-", "--quiet"], stdout=file, check=True, timeout=120)
        self.tool(0, "hpu-run", "r.recipe", "--input", "zeros", "--quiet")
        traced = stdout("hpu-run", "m.recipe", "--input", "zeros", "--trace", "-").stdout
        recorded = stdout("hpu-trace", "record", "-o", "-", "--", os.path.join(BIN, "hpu-run"), "m.recipe").stdout
        for name, data in (("a.hputrace", traced), ("b.hputrace", recorded)):
            with open(os.path.join(self.work, name), "wb") as file:
                file.write(data)
            self.tool(0, "hpu-trace", "validate", name)
        json.loads(stdout("hpu-trace", "export", "a.hputrace", "--format", "chrome", "-o", "-").stdout)
        self.assertGreater(len(stdout("hpu-trace", "merge", "a.hputrace", "b.hputrace", "--align", "start", "-o", "-").stdout), 1000)
        self.assertTrue(stdout("hccl-sim", "all_reduce", "--nodes", "2", "--bytes", "1M", "--draw", "-").stdout.lstrip().startswith(b"<"))
        error = self.tool(1, "hpu-compile", "m.onnx", "-o", "-", "--json").stderr
        self.assertIn("-o - and --json both write to stdout", error)
        code, lines, error = on_terminal(80, "hpu-compile", "m.onnx", "-o", "-", cwd=self.work, errors_too=False)
        self.assertEqual((code, lines), (1, []))
        self.assertIn("not to a terminal", error)
        code, lines, error = on_terminal(80, "hpu-compile", "m.onnx", "-o", "-", "--stop-after", "import", cwd=self.work, errors_too=False)
        self.assertEqual(code, 0, error)
        self.assertTrue(any("hpu.conv2d" in line for line in lines))

    def test_what_cannot_be_written_is_an_error_and_leaves_nothing(self):
        before = self.contents()
        for tool, arguments, path in (("hpu-compile", ["m.onnx", "-o"], "/dev/full"), ("hpu-compile", ["m.onnx", "-o"], "none/x"),
                                      ("hpu-compile", ["m.onnx", "-o"], self.work), ("hpu-run", ["m.onnx", "--trace"], "none/x"),
                                      ("hpu-run", ["m.onnx", "--trace"], "/dev/full"), ("hpu-compile", ["m.onnx", "-o"], "")):
            error = self.tool(1, tool, *arguments, path, "--quiet").stderr
            self.assertRegex(error, r"\Aerror: [^\n]+\n\Z", (tool, path))
            self.assertIn(path or "needs the name of a file", error)
            self.assertEqual(self.contents(), before, (tool, path))


class Outputs(unittest.TestCase):
    def test_what_cannot_be_written_is_found_before_the_work(self):
        for tool, option, path in (("hpu-run", "--trace", "/no/such/t.hputrace"), ("hpu-run", "--trace", "."),
                                   ("hpu-run", "--trace", MODEL + "/t.json"), ("hpu-run", "--output", MODEL + "/folder"),
                                   ("hpu-run", "--output", "/proc/folder"), ("hpu-compile", "--output", "/no/such/r.recipe"),
                                   ("hpu-compile", "--dump-phases", MODEL)):
            more = ["-o", os.devnull] if option == "--dump-phases" else []
            result = run(tool, MODEL, "--target", "gaudi2", "--quiet", option, path, *more)
            self.assertEqual((result.returncode, result.stdout), (1, ""), (tool, option, path))
            self.assertRegex(result.stderr, rf"\Aerror: {option}: [^\n]+\n\Z")
            # Before the model is read.
            result = run(tool, "/no/such/model.onnx", "--quiet", option, path, *more)
            if option != "--dump-phases":
                self.assertIn(f"error: {option}: ", result.stderr)

    def test_those_of_hpu_trace_and_of_the_simulator_are_found_first_too(self):
        for command in (("timeline", "--draw", "/no/such/dir/x.svg"), ("export", "-o", "/no/such/dir/t.json"),
                        ("merge", "-o", "/no/such/dir/t.hputrace"), ("record", "-o", "/no/such/dir/t.hputrace", "--", "false")):
            # Not that the trace is missing, nor that the command failed.
            more = () if command[0] == "record" else ("/no/such/trace.hputrace",)
            result = run("hpu-trace", *command, *more)
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertRegex(result.stderr, r"\Aerror: --(draw|output): no folder '/no/such/dir'[^\n]*\n\Z", command)
        for option in ("--draw", "--export-schedule", "--export-chakra"):
            result = run("hccl-sim", "all_reduce", "--nodes", "2", "--target", "gaudi2", option, "/no/such/dir/x.svg")
            self.assertEqual((result.returncode, result.stdout), (1, ""), option)
            self.assertIn(f"error: {option}: no folder '/no/such/dir'", result.stderr)

    def test_a_trace_comes_with_what_reads_it(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            for name, hint in (("t.json", "ui.perfetto.dev or chrome://tracing"), ("t.pftrace", "ui.perfetto.dev"),
                               ("t.csv", "spreadsheets"), ("t.hputrace", "hpu-trace summary t.hputrace")):
                result = run("hpu-run", MODEL, "--target", "gaudi2", "--trace", name, cwd=work)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, rf"trace   {name} \([^)]*{re.escape(hint)}")
                self.assertEqual("hpu-trace" in result.stdout, name == "t.hputrace")
                read = run("hpu-trace", "summary", name, cwd=work)
                self.assertEqual(read.returncode, 0 if name == "t.hputrace" else 1, read.stderr)


class Widths(unittest.TestCase):
    def test_help_fits_eighty_columns_and_names_only_settings_that_the_tool_reads(self):
        tools = {"hpu-compile": "HPU_CACHE", "hpu-run": "HPU_TRACE", "hpu-verify": "HPU_NODE", "hpu-trace": "HPU_LOG_LEVEL",
                 "hpu-smi": "HPU_NODE", "hccl-perf": "HPU_COMM_NETWORK", "hccl-sim": "HPU_LOG_LEVEL"}
        foreign = {"hpu-compile": "HPU_NODE HPU_TRACE HCCL_ HPU_COMM_ HABANA_", "hpu-run": "HCCL_ HPU_COMM_ HABANA_",
                   "hpu-verify": "HCCL_ HPU_COMM_ HABANA_", "hpu-trace": "HPU_NODE HPU_CACHE HCCL_ HPU_COMM_ HABANA_",
                   "hpu-smi": "HPU_CACHE HCCL_ HPU_COMM_ HABANA_", "hccl-perf": "HPU_CACHE HPU_PROFILE_DIR", "hccl-sim": "HPU_NODE HCCL_"}
        verbs = "summary top timeline roofline memory overlap critical-path diff merge export info validate record".split()
        for tool, own in tools.items():
            if not os.path.exists(os.path.join(BIN, tool)):
                continue
            text = run(tool, "--help").stdout
            self.assertRegex(text, rf"(?m)^  {own} ", tool)
            environment = text.split("Environment:")[1]
            for word in foreign[tool].split():
                self.assertNotRegex(environment, rf"(?m)^  {word}", tool)
            if tool == "hpu-trace":
                helps = [run(tool, verb, "--help").stdout for verb in verbs]
                for verb, one in zip(verbs, helps):
                    self.assertRegex(one, rf"(?m)^Usage: hpu-trace {verb} ")
                text += "".join(helps)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, (tool, line))

    def test_reports_take_the_terminals_width_and_are_whole_on_a_pipe(self):
        explain = ("hpu-compile", MODEL, "-o", os.devnull, "--target", "gaudi2", "--explain", "features.0.0/Conv", "--report", "tile,memory")
        for columns in (80, 120):
            code, lines, error = on_terminal(columns, *explain, errors_too=False)
            self.assertEqual(code, 0, error)
            self.assertLessEqual(max(map(len, lines)), columns)
        piped = run(*explain, env=NO_COLUMNS).stdout
        self.assertIn("SRAM", piped)
        self.assertGreater(max(map(len, piped.splitlines())), 120)
        narrow = run(*explain, env=os.environ | {"COLUMNS": "80"}).stdout
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80)


class Documents(unittest.TestCase):
    def test_cli_md_has_every_option_of_the_tools(self):
        with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as file:
            text = file.read()
        verbs = "summary top timeline roofline memory overlap critical-path diff merge export info validate record"
        for tool in ("hpu-compile", "hpu-run", "hpu-verify", "hpu-trace"):
            helps = [run(tool, "--help").stdout]
            if tool == "hpu-trace":
                helps += [run(tool, verb, "--help").stdout for verb in verbs.split()]
                for verb in verbs.split():
                    self.assertRegex(helps[0], rf"(?m)^  {verb} ")
            options = set(re.findall(r"(?m)^ +(?:-\w,)?(--[a-z][a-z-]+)", "".join(helps)))
            section = re.search(rf"^## {tool}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
            self.assertTrue(section, f"docs/cli.md has no section {tool}")
            common = re.search(r"^## All tools$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL).group(1)
            missing = sorted(option for option in options if option not in section.group(1) + common)
            self.assertEqual(missing, [], f"docs/cli.md, section {tool}")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
