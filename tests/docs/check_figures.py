# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/ beside what gives them: docs/figures.md has a line for each section that states one.

Usage: check_figures.py SOURCE_DIR BUILD_DIR [PART...]; without parts all but scaleout, which takes the longest. Sections without a line, lines without a section, programs and files that are
not there, and tables that differ from their command or kept result are named; the exit code is then 2."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import make_ffn

UNIT = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?\s?(?:%|us|µs|ms|ns|s|GB/s|MB/s|TB/s|GFLOP/s|TFLOP/s|KB|MB|GB|KiB|MiB|GiB|"
                  r"times|x|W|hours|million)(?![\w/])")
CELL = re.compile(r"\s*\**[-+]?\d+(?:\.\d+)?(?:e-?\d+)?\s?%?\**\s*")
KINDS = ("model", "host", "published", "limit")
# Tables of names, generated or checked by tests of their own.
OTHER_PAGES = ("README.md", "figures.md", "onnx-coverage.md", "synapse-guids.md")


def sections(text):
    """{heading: its lines}, code blocks included (their # is no heading)."""
    result, heading, fenced = {}, "", False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        if not fenced and re.match(r"#+ ", line):
            heading = line.lstrip("#").strip()
        result.setdefault(heading, []).append(line)
    return result


def states_figures(lines):
    cells = lambda line: [cell for cell in line.split("|") if CELL.fullmatch(cell)] if line.startswith("|") else []
    return any(UNIT.search(line) or len(cells(line)) >= 2 and "." in "".join(cells(line)) for line in lines)


def rows(lines):
    """Cells of each row of the section's tables, without the rules below headers."""
    table = [[cell.strip().strip("*") for cell in line.strip().strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in table if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]


class Check:
    def __init__(self, source, build):
        self.source, self.build, self.errors = source, build, []
        self.docs = os.path.join(source, "docs")
        self.pages = {name: sections(self.read("docs", name)) for name in sorted(os.listdir(self.docs)) if name.endswith(".md")}

    def read(self, *path):
        with open(os.path.join(self.source, *path), encoding="utf-8") as file:
            return file.read()

    def kept(self, name):
        return json.loads(self.read("benchmarks", "results", name))

    def run(self, program, *arguments):
        found = [path for folder in ("bin", "benchmarks") if os.path.exists(path := os.path.join(self.build, folder, program))]
        if not found:
            self.errors.append(f"{program} is not built")
            return ""
        return subprocess.run([found[0], *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def lines(self, page, heading):
        return self.pages.get(page, {}).get(heading, [])

    def expect(self, where, shown, value, digits):
        """`shown` is `value`, rounded."""
        try:
            number = float(shown.rstrip(" %"))
        except ValueError:
            self.errors.append(f"{where}: '{shown}' is no number; it should be {value:.{digits}f}")
            return
        if abs(number - value) > 0.5001 * 10 ** -digits:
            self.errors.append(f"{where}: the page says {shown}, what gives it says {value:.{digits}f}")

    # --- the list itself

    def the_list(self):
        listed = set()
        for row in rows(self.read("docs", "figures.md").splitlines())[1:]:
            page, heading, kind, gives = row
            where = f"docs/figures.md, {page}, {heading}"
            listed.add((page, heading))
            if kind not in KINDS:
                self.errors.append(f"{where}: kind '{kind}' is none of {', '.join(KINDS)}")
            if not re.search(r"\d", "".join(self.lines(page, heading))):
                self.errors.append(f"{where}: no such section, or one without a figure")
            for command in re.findall(r"`([^`]+)`", gives):
                word = command.split()[0]
                if not (os.path.exists(os.path.join(self.source, word)) or "/" not in word and self.is_target(word)):
                    self.errors.append(f"{where}: there is no {word}")
        for page, headings in self.pages.items():
            for heading, lines in headings.items():
                if page not in OTHER_PAGES and states_figures(lines) and (page, heading) not in listed:
                    figures = [m.group(0) for line in lines for m in UNIT.finditer(line)][:4]
                    self.errors.append(f"docs/{page}, {heading}: states figures ({', '.join(figures)}) and has no line in docs/figures.md")

    def is_target(self, name):
        if not hasattr(self, "cmake"):
            paths = subprocess.run(["git", "-C", self.source, "ls-files", "*CMakeLists.txt"], check=True, stdout=subprocess.PIPE, text=True)
            self.cmake = "\n".join(self.read(path) for path in paths.stdout.split())
        return re.search(rf"\((?:NAME )?{re.escape(name)}\b", self.cmake) is not None

    # --- tables against what gives them

    def collectives(self):
        gives = {}
        for row in json.loads(self.run("collectives_device_time", "--json", "--factor", "2"))["rows"]:
            gives[row["target"], row["devices"], row["collective"], row["bytes"]] = row
        mib = 1 << 20
        for row in rows(self.lines("collectives.md", "Algorithms")):
            if len(row) != 5 or row[0] in ("", "Name"):
                continue
            for target, cell in zip(("gaudi1", "gaudi2", "gaudi3"), row[1:]):
                for devices, share in zip((2, 4, 8), cell.split("/")):
                    one = gives[target, devices, row[0], 256 * mib]
                    self.expect(f"collectives.md, {row[0]}, {target}, {devices} devices", share, 100 * one["share_of_limit"], 1)
            self.expect(f"collectives.md, {row[0]}, busbw", row[4].replace(" GB/s", ""), gives["gaudi3", 8, row[0], 256 * mib]["busbw_gb_s"], 1)
        sizes = (1 << 10, 1 << 16, mib, 32 * mib, 256 * mib, 1024 * mib)
        for row in rows(self.lines("collectives.md", "Device time and its calibration")):
            if len(row) != 8 or not row[0]:
                continue
            name = row[0].split(",")[0].replace(" by relays", "")
            for size, cell in zip(sizes, row[1:]):
                one, parts = gives["gaudi3", 8, name, size], re.match(r"([\d.]+)(?: \(([\d.]+) %\))?", cell)
                where = f"collectives.md, {name} of {size} bytes"
                self.expect(where, parts[1], one["time_us"], 1 if "." in parts[1] else 0)
                if parts[2]:
                    self.expect(where, parts[2], 100 * one["share_of_limit"], 1)

    def scaleout(self):
        """The tables of scaleout.md: of what is chosen, by its exact modelled time."""
        mib, gib, page = 1 << 20, 1 << 30, "scaleout.md"
        run = lambda *arguments: json.loads(self.run("collectives_scaleout", "--chosen", "--json", *arguments))
        gives = {(row["target"], row["nodes"], row["collective"], row["bytes"]): row
                 for row in run("--min", "1G", "--max", "1G")["rows"] + run("--target", "gaudi3", "--max", "1M", "--factor", "1024")["rows"]}
        decimals = lambda text: len(text.partition(".")[2])
        shown = 0
        for row in rows(self.lines(page, "Shares of what the fabric allows"))[1:]:
            for target, cell in zip(("gaudi1", "gaudi2", "gaudi3"), row[1:], strict=True):
                for nodes, share in zip((2, 4, 16, 128), cell.split(" / "), strict=True):
                    self.expect(f"{page}, {row[0]}, {target}, {nodes} nodes", share, 100 * gives[target, nodes, row[0], gib]["share_of_limit"], 1)
                    shown += 1
        name, sizes = "", {"1 KiB": 1 << 10, "1 MiB": mib, "1 GiB": gib}
        for row in rows(self.lines(page, "Beside a model of HCL"))[1:]:
            name = row[0] or name
            for column, (nodes, key) in enumerate((nodes, key) for nodes in (2, 16, 128) for key in ("modelled_us", "hcl_modelled_us")):
                one, cell = gives["gaudi3", nodes, name, sizes[row[1]]], row[2 + column]
                self.expect(f"{page}, {name} of {row[1]}, {nodes} nodes, {key}", cell, one[key], decimals(cell))
                shown += 1
        uneven = {(row["nodes"], row["collective"]): row
                  for row in run("--uneven", "--target", "gaudi3", "--min", "1G", "--max", "1G")["uneven_rows"]}
        head, *others = rows(self.lines(page, "Nodes with different numbers of ranks"))
        for row in others:
            for collective, cell in zip(head[1:], row[1:], strict=True):
                one, parts = uneven[row[0], collective], re.fullmatch(r"(\d+) \(([\d.]+) x\)", cell)
                self.expect(f"{page}, {row[0]}, {collective}", parts[1], 100 * one["share_of_limit"], 0)
                times = one["pairwise_modelled_us"] / one["modelled_us"]
                self.expect(f"{page}, {row[0]}, {collective}, pairwise", parts[2], times, decimals(parts[2]))
                shown += 1
        if shown < 150:
            self.errors.append(f"{page}: only {shown} figures were found in its tables")

    def device_performance(self):
        gives = {}
        for row in self.kept("device_time_gaudi2.json")["rows"]:
            name = row["model"].split("-opset17")[0] + (", 384 tokens" if row["model"].endswith("s384") else "")
            gives[name, row["batch"], row["precision"]] = row
        for row in rows(self.lines("device-performance.md", "Device time")):
            if len(row) != 12 or row[0] == "model" or row[0].startswith("geometric"):
                continue
            for precision, cells in (("f32", row[2:7]), ("bf16", row[7:12])):
                one, where = gives[row[0], int(row[1]), precision], f"device-performance.md, {row[0]}, batch {row[1]}, {precision}"
                self.expect(where, cells[0], one["device_time_us"], 1)
                self.expect(where, cells[1], one["lower_bound_us"], 1)
                self.expect(where, cells[3], one["over_bound"], 2)
                self.expect(where, cells[4], one["o0_over_o2"], 2)

    def host_performance(self):
        latency, start = self.kept("compare_f32_two_threads.json")["models"], self.kept("compile_time_f32.json")["models"]
        for row in rows(self.lines("host-performance.md", "Host latency")):
            if len(row) != 9 or row[0] == "model":
                continue
            where = f"host-performance.md, {row[0]}"
            values = latency[row[0] + "-opset17"][:2] + [latency[row[0] + "-opset17"][3]]
            one = start[row[0] + "-opset17"]
            for shown, value, digits in zip(row[1:], values + [one[0], one[1], one[3], one[4], one[5]], (1, 1, 2, 2, 0, 0, 0, 2)):
                self.expect(where, shown, value, digits)

    def late_sizes(self):
        kept = {name.rsplit("-opset", 1)[0]: values for name, values in self.kept("late_sizes_time.json")["models"].items()}
        for row in rows(self.lines("host-performance.md", "Compile time of one recipe for all sizes")):
            if row[0] == "model":
                continue
            for shown, value, digits in zip(row[2:], kept[row[0]], (0, 0, 2, 2, 1, 1, 0, 1, 0)):
                self.expect(f"host-performance.md, all sizes, {row[0]}", shown, value, digits)

    def late_launches(self):
        kept = self.kept("late_sizes_run.json")["networks"]
        for row in rows(self.lines("device-performance.md", "One recipe for all sizes")):
            for shown, value, digits in zip(row[1:], kept.get(row[0], ()), (3, 2, 2)):
                self.expect(f"device-performance.md, all sizes, {row[0]}", shown, value, digits)

    def generation(self):
        kept = self.kept("generation.json")["models"]
        for row in rows(self.lines("host-performance.md", "Generation")):
            for shown, value, digits in zip(row[1:], kept.get(row[0], ()), (0, 0, 0, 2, 2)):
                self.expect(f"host-performance.md, generation, {row[0]}", shown, value, digits)

    def pytorch(self):
        kept = self.kept("pytorch_models.json")["networks"]
        titles, *shown_rows = rows(self.lines("host-performance.md", "PyTorch"))
        kinds = {"ratio": (lambda result: result["ratio"]["median"], 1), "host ms": (lambda result: result["host_ms"], 1), "device ms": (lambda result: result["device_ms"], 2)}
        for row in shown_rows:
            name, work = row[0].rsplit(", ", 1)
            for title, shown in zip(titles[1:], row[1:]):
                kind, mode = title.rsplit(", ", 1)
                value, digits = kinds[kind]
                self.expect(f"host-performance.md, PyTorch, {row[0]}, {title}", shown, value(kept[name][work][mode]), digits)

    def wall(self):
        gives = {(row["op"], row["ranks"], row["bytes"]): row["ratio"]
                 for name in ("collectives_wall.json", "collectives_wall_64mib.json") for row in self.kept(name)["rows"]}
        sizes = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
        for row in rows(self.lines("collectives.md", "Wall clock")):
            if len(row) != 7 or not row[0]:
                continue
            for size, cell in zip(sizes, row[1:]):
                for ranks, shown in zip((2, 4, 8), cell.split("/")):
                    self.expect(f"collectives.md, wall clock, {row[0]}, {ranks} ranks, {size} bytes", shown.strip(),
                                gives[row[0].replace("-", "_"), ranks, size], 2)

    def readme(self):
        """The table of the README, against the same results."""
        table = {row[0].split(",")[0].split(" of ")[0]: row[1] for row in rows(self.read("README.md").splitlines()) if len(row) == 3}
        number = lambda name, index=0: re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", table[name])[index]
        latency = [one[3] for one in self.kept("compare_f32_two_threads.json")["models"].values()]
        warm = [one[5] for one in self.kept("compile_time_f32.json")["models"].values()]
        mean = statistics.geometric_mean(latency)
        for index, value in enumerate((mean, min(latency), max(latency))):
            self.expect("README.md, host latency", number("host latency", index), value, 2)
        for index, value in enumerate((min(warm), max(warm))):
            self.expect("README.md, start", number("start from the recipe cache", index), value, 2)
        errors = [float(row[2]) for row in rows(self.lines("accuracy.md", "Accuracy")) if row[0].endswith("-opset17")]
        self.expect("README.md, error", number("error", 1), max(errors), 8)
        rates = json.loads(self.run("collectives_device_time", "--json", "--factor", "2"))["rows"]
        one = next(row for row in rates if (row["target"], row["devices"], row["collective"], row["bytes"]) == ("gaudi3", 8, "all-reduce", 1 << 28))
        self.expect("README.md, all-reduce", number("modelled all-reduce"), one["busbw_gb_s"], 1)
        self.expect("README.md, all-reduce", number("modelled all-reduce", 1), 100 * one["share_of_limit"], 1)
        fit = re.search(r"the same, constants as shipped \| 95 \| MAPE ([\d.]+)", self.read("docs", "performance-model.md"))[1]
        self.expect("README.md, GEMMs", number("modelled time"), float(fit), 1)

    def tuner(self):
        said = self.run("hccl-perf", "all_reduce", "--ranks", "8", "--target", "gaudi3", "-b", "32M", "-e", "32M", "--no-data", "--explain")
        for line in self.lines("collectives.md", "Tuner"):
            if re.match(r"    \w.*slices?: ", line) and line.strip() not in said:
                self.errors.append(f"collectives.md, Tuner: hccl-perf does not say '{line.strip()}':\n{said}")

    def trace(self):
        """The sample of hpu-trace: every line of it is printed by the commands above it."""
        with tempfile.TemporaryDirectory() as folder:
            model, trace = os.path.join(folder, "ffn.onnx"), os.path.join(folder, "ffn.hputrace")
            make_ffn.save(make_ffn.make_model(), model)
            run = os.path.join(self.build, "bin", "hpu-run")
            self.run("hpu-trace", "record", "-o", trace, "--", run, model, "--quiet", "--iters", "2")
            said = self.run("hpu-trace", "timeline", "--launch", "0", "--width", "72", trace)
        shown = [line[4:] for line in self.lines("hpu-trace.md", "The timeline") if line.startswith("    ") and not line.startswith("    $")]
        if not shown:
            self.errors.append("hpu-trace.md has no sample of the timeline")
        for line in shown:
            if line.rstrip() not in (one.rstrip() for one in said.splitlines()):
                self.errors.append(f"hpu-trace.md, The timeline: the commands do not print\n  {line}\nbut\n{said}")
                break


def main():
    check = Check(*map(os.path.abspath, sys.argv[1:3]))
    usual = (check.the_list, check.collectives, check.device_performance, check.host_performance, check.late_sizes, check.late_launches, check.generation, check.pytorch, check.wall, check.readme, check.tuner, check.trace)
    for part in [getattr(check, name) for name in sys.argv[3:]] or usual:
        before = len(check.errors)
        try:
            part()
        except (KeyError, ValueError, IndexError, OSError, subprocess.CalledProcessError) as error:
            check.errors.append(f"{part.__name__}: {type(error).__name__}: {error}")
        print(f"{part.__name__}: {len(check.errors) - before} differences")
    print("\n".join(check.errors))
    sys.exit(2 if check.errors else 0)


if __name__ == "__main__":
    main()
