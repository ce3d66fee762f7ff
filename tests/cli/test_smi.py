#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hpu-smi and hl-smi beside a process that uses a device, read the way that other programs read hl-smi.

Runs the programs of HPU_BINARY_DIR (default: build). The parsers below are written after what monitors do with hl-smi's
output: split at commas and trim, csv.reader and a header without its units, awk's columns, regular expressions.
"""

import contextlib
import csv
import ctypes
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build")
HL_SMI = os.path.join(BUILD, "bin", "hl-smi")
HPU_SMI = os.path.join(BUILD, "bin", "hpu-smi")
BYTES_OF_WORKER = 3 * 200192  # Three buffers of 200000 bytes, in units of 256.


def run(program, *arguments, code=0):
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def eventually(check):
    """On a loaded machine an owner may not answer in time; then the same question is asked again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Nodes(unittest.TestCase):
    def test_a_node_that_nobody_uses_is_said_to_be_so(self):
        for arguments in (["--nic", "stats"], ["-L"], []):
            result = subprocess.run([HPU_SMI, *arguments], capture_output=True, text=True, timeout=60, check=False,
                                    env={**os.environ, "HPU_NODE": f"nobody.{os.getpid()}"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"no process uses a device of node 'nobody.{os.getpid()}'", result.stderr)


class Worker:
    """A process that owns a device."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests", "node_worker"), *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.hello = self.process.stdout.readline()
        assert self.hello.strip(), "node_worker has no device"

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        while True:
            with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            time.sleep(0.01)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def worker(*arguments):
    process = Worker(*arguments)
    try:
        yield process
    finally:
        process.end()


class ParsersOfOthers(unittest.TestCase):
    def test_split_at_commas_with_all_columns_by_position(self):
        """As detectors of devices do: no header, no units, fields by position, numbers as integers."""
        fields = "index,uuid,driver_version,name,serial,bus_id,memory.total,memory.used,memory.free,power.draw," \
                 "temperature.aip,utilization.aip"
        with worker("--index", "3") as owner:
            self.assertEqual(owner.ask("round"), "right")
            devices = eventually(lambda: self.devices(fields))
        self.assertEqual([int(parts[0]) for parts in devices], list(range(8)))
        self.assertEqual(len({parts[1] for parts in devices}), 8)
        for parts in devices:
            self.assertRegex(parts[2], r"^\d+\.\d+\.\d+-")
            self.assertRegex(parts[3], r"^HL-(205|225|325)")
            self.assertRegex(parts[5], r"^0000:[0-9a-f]{2}:00\.0$")
            total, used, free, watts, celsius, percent = (int(part) for part in parts[6:])
            self.assertEqual(used + free, total)
            self.assertTrue(50 <= watts <= 1000 and 10 <= celsius <= 120 and 0 <= percent <= 100, parts)

    def devices(self, fields):
        text = run(HL_SMI, f"--query-aip={fields}", "--format=csv,noheader,nounits")
        devices = [line.split(", ") for line in text.strip().splitlines()]
        for parts in devices:
            self.assertEqual(len(parts), 12, parts)
        self.assertEqual(devices[3][7], "1")  # MiB, rounded.
        return devices

    def test_csv_reader_with_a_header_whose_units_are_cut_off(self):
        """As collectors of time series do: the header's names without ' [unit]', rows as dictionaries."""
        fields = "timestamp,name,temperature.aip,module_id,utilization.aip,memory.total,memory.free,memory.used,power.draw"
        rows = list(csv.reader(io.StringIO(run(HL_SMI, "-Q", fields, "-f", "csv,nounits"))))
        header = [name.strip().split(" [")[0] for name in rows[0]]
        self.assertEqual(header, fields.split(","))
        records = [dict(zip(header, (value.strip() for value in row))) for row in rows[1:]]
        self.assertEqual(sorted(int(record["module_id"]) for record in records), list(range(8)))
        for record in records:
            time.strptime(record["timestamp"], "%a %b %d %H:%M:%S UTC %Y")
            self.assertGreaterEqual(float(record["memory.total"]), 32768)
            for name in ("temperature.aip", "utilization.aip", "memory.free", "memory.used", "power.draw"):
                float(record[name])

    def test_dict_reader_with_units_in_the_columns_names(self):
        """As exporters of data frames do: columns named 'power.draw [W]'."""
        text = run(HL_SMI, "--format=csv,nounits", "--query-aip",
                   "name,uuid,power.draw,temperature.aip,utilization.aip,memory.used,memory.total")
        rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
        self.assertEqual(len(rows), 8)
        for row in rows:
            for column in ("power.draw [W]", "temperature.aip [C]", "utilization.aip [%]", "memory.used [MiB]",
                           "memory.total [MiB]"):
                float(row[column])

    def test_shell_loops_over_bus_ids_and_their_links(self):
        addresses = run(HL_SMI, "-Q", "bus_id", "-f", "csv,noheader").split()
        self.assertEqual(len(addresses), 8)
        states = {}
        for line in run(HL_SMI, "-n", "link", "-i", addresses[2]).splitlines():
            port, state = line.split(":")
            states[int("".join(re.findall(r"\d+", port)))] = state.strip()
        self.assertEqual(len(states), 21)
        self.assertEqual(set(states.values()), {"UP"})
        external = [line.split()[1] for line in run(HL_SMI, "-n", "ports", "-i", addresses[2]).splitlines()
                    if "external" in line]
        self.assertEqual(len(external), 3)
        self.assertIn("DOWN", run(HL_SMI, "-n", "link", "-P", external[0].strip(":"), "-i", addresses[2]))

    def test_columns_of_the_table(self):
        """hl-smi | grep HL- | awk '{print $2, $6}'"""
        found = [line.split() for line in run(HL_SMI).splitlines() if "HL-" in line and "SMI" not in line]
        self.assertEqual([words[1] for words in found], [str(i) for i in range(8)])
        addresses = run(HL_SMI, "-Q", "bus_id", "-f", "csv,noheader").split()
        self.assertEqual([words[5] for words in found], addresses)

    def test_regular_expressions_over_the_log(self):
        text = run(HL_SMI, "--query", "--display", "POWER")
        self.assertEqual(len(re.findall(r"Power Draw\s*:\s*(\d+)\s*W", text)), 8)
        self.assertEqual(run(HL_SMI, "-L").count("AIP (accel"), 8)
        self.assertEqual(len(re.findall(r"Firmware \[SPI\] Version\s+: N/A", run(HL_SMI, "-L"))), 8)


class InUse(unittest.TestCase):
    def test_the_owner_is_shown_and_gone_when_it_is_killed(self):
        with worker("--index", "5", "--target", "gaudi1") as owner:
            self.assertEqual(owner.ask("round"), "right")
            eventually(lambda: self.check_owner(owner.process.pid))
            owner.process.kill()
            owner.process.wait()
            device = json.loads(run(HPU_SMI, "--json", "-i", "5"))["devices"][0]
            self.assertEqual((device["state"], device["processes"], device["memory"]["used"]), ("free", [], 0))

    def check_owner(self, pid):
        table = run(HPU_SMI)
        self.assertRegex(table, rf"\|   5 +{pid}   C      node_worker +1MiB +\|")
        self.assertRegex(table, r"\|   5  HL-205 ")
        device = json.loads(run(HPU_SMI, "--json", "-i", "5"))["devices"][0]
        self.assertEqual(device["state"], "in use")
        self.assertEqual(device["target"], "gaudi1")
        self.assertEqual([(p["pid"], p["name"], p["type"], p["streams"]) for p in device["processes"]],
                         [(pid, "node_worker", "owner", 1)])
        self.assertGreaterEqual(device["memory"]["used"], BYTES_OF_WORKER)
        self.assertEqual(device["memory"]["used"] + device["memory"]["free"], device["memory"]["total"])
        self.assertEqual(device["launches"], 1)

    def test_a_busy_device_shows_its_utilization(self):
        with worker("--index", "1", "--run"):
            eventually(self.check_busy)

    def check_busy(self):
        text = run(HPU_SMI, "-i", "1", "-Q", "utilization.aip,utilization.dma,power.draw,pcie.rx,energy", "-f",
                   "csv,noheader,nounits", "--window", "200")
        self.assertNotIn("N/A", text)
        percent, dma, watts, received, energy = (int(value) for value in text.split(", "))
        self.assertEqual(percent, dma)
        self.assertGreater(dma, 0)
        self.assertGreater(watts, int(run(HPU_SMI, "-i", "0", "-Q", "power.draw", "-f", "csv,noheader,nounits")))
        self.assertGreater(received, 0)
        self.assertGreater(energy, 0)

    def test_an_owner_that_is_stopped_is_still_named(self):
        with worker("--index", "2") as owner:
            owner.stop()
            text = run(HPU_SMI, "-i", "2", "-Q", "pid,state,memory.used,memory.total", "-f", "csv,noheader,nounits")
            self.assertEqual(text.strip(), f"{owner.process.pid}, no answer, N/A, 98304")
            owner.process.send_signal(signal.SIGCONT)

    def test_the_loop_prints_a_header_once_and_ends_with_an_interrupt(self):
        loop = subprocess.Popen([HL_SMI, "-Q", "timestamp,index,utilization.aip", "-f", "csv", "-l", "0.1", "-i", "0,1"],
                                stdout=subprocess.PIPE, text=True)
        lines = [loop.stdout.readline().strip() for _ in range(7)]
        loop.send_signal(signal.SIGINT)
        rest = loop.stdout.read()
        loop.stdout.close()
        self.assertEqual(loop.wait(20), 0)
        self.assertEqual(lines[0], "timestamp, index, utilization.aip [%]")
        self.assertEqual([line.split(", ")[1] for line in lines[1:]], ["0", "1"] * 3)
        self.assertNotIn("timestamp", rest)

    def test_a_reader_that_goes_away_ends_the_loop(self):
        loop = subprocess.Popen([HL_SMI, "-l", "0.05"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        loop.stdout.readline()
        loop.stdout.close()
        loop.wait(20)


class Surface(unittest.TestCase):
    def test_json_has_its_keys(self):
        value = json.loads(run(HPU_SMI, "--json"))
        self.assertEqual(len(value["devices"]), 8)
        for device in value["devices"]:
            for key, kind in {"index": int, "name": str, "uuid": str, "bus_id": str, "memory": dict, "utilization": dict,
                              "processes": list}.items():
                self.assertIsInstance(device[key], kind, key)
            for key in ("total", "used", "free"):
                self.assertIsInstance(device["memory"][key], int)
            for key in ("aip", "mme", "tpc", "dma", "nic"):
                self.assertIsInstance(device["utilization"][key], float)
            self.assertIs(device["power"]["modelled"], True)
            self.assertIs(device["temperature"]["modelled"], True)

    def test_metrics_are_in_the_text_format(self):
        text = run(HPU_SMI, "--prometheus")
        typed, names = set(), set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                continue
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                self.assertNotIn(name, typed, "each metric is one block")
                self.assertEqual(kind, "counter" if name.endswith("_total") else "gauge")
                typed.add(name)
                continue
            match = re.fullmatch(r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*)\} (-?[\d.e+-]+)', line)
            self.assertTrue(match, line)
            float(match.group(3))
            names.add(match.group(1))
            self.assertIn(match.group(1), typed)
        for name in ("memory_used_bytes", "utilization", "power_mW", "temperature_onchip", "clock_soc_mhz", "energy",
                     "nic_port_status", "power_default_limit_mW"):
            self.assertIn("habanalabs_" + name, names)
        self.assertEqual(text.count("habanalabs_utilization{"), 8)
        self.assertEqual(text.count("habanalabs_nic_port_status{"), 8 * 24)
        self.assertEqual(text.count("hpu_nic_port_tx_bytes_total{"), 8 * 24)
        self.assertEqual(text.count("hpu_network_retransmitted_total{"), 8)

    def test_ports_have_carried_what_the_ranks_of_a_job_send(self):
        """A free device's have carried nothing; of a job's both ends of each cable say the same once it stands still."""
        text = run(HPU_SMI, "-i", "7", "-n", "stats", "-P", "0,23").splitlines()
        self.assertEqual(text[0].split(), ["port", "0:", "UP,", "to", "device", "0"])
        self.assertTrue(any(line.startswith("port 23:") and line.endswith("DOWN, external") for line in text), text)
        self.assertEqual({line.split()[1] for line in text if not line.startswith("port")}, {"0"})
        perf = subprocess.Popen([os.path.join(BUILD, "bin", "hccl-perf"), "all_reduce", "--ranks", "4", "-b", "1M", "-e", "1M",
                                 "--iters", "1000000", "--no-check"], stdout=subprocess.DEVNULL)
        try:
            def check():
                devices = json.loads(run(HPU_SMI, "--json"))["devices"]
                for device in devices[:4]:
                    for link in device["links"]:
                        if link["to"] == "rail" or link["to"] > 3:
                            self.assertEqual(link["tx"]["bytes"] + link["rx"]["bytes"], 0)
                            continue
                        self.assertTrue(link["up"])
                        self.assertEqual(len(link["ports"]), 3)
                        for way in ("tx", "rx"):
                            self.assertGreater(link[way]["payload_bytes"], 0)
                            self.assertGreater(link[way]["bytes"], link[way]["payload_bytes"])
            eventually(check)
        finally:
            perf.kill()
            perf.wait()

    def test_the_topology_is_a_matrix(self):
        rows = [line.split() for line in run(HPU_SMI, "--topology").splitlines()[:9]]
        self.assertEqual(rows[0][:8], [f"AIP{i}" for i in range(8)])
        for i, row in enumerate(rows[1:]):
            self.assertEqual(row[1 + i], "X")
            self.assertEqual(row[1:9].count("NIC3"), 7)

    def test_mistakes_are_one_line_and_exit_with_one(self):
        for arguments, part in ((("-Q", "index,colour"), "'colour'; valid fields are timestamp, name"),
                                (("-i", "0000:ff:00.0"), "no device '0000:ff:00.0'"),
                                (("-Q", "index", "-f", "xml"), "unknown word 'xml'"),
                                (("-q", "-d", "COLOUR"), "valid sections are PRODUCT"),
                                (("-d", "POWER"), "--display needs --query"),
                                (("-q", "-Q", "index"), "give one of"),
                                (("-l", "-1"), "--loop"),
                                (("-l", "x"), "--loop"),
                                (("-n", "cables"), "give link, ports or stats"),
                                (("-r",), "--reset-aip"),
                                (("-p", "300"), "--power-max"),
                                (("--json", "-l", "1"), "one object"),
                                (("--colour",), "unknown option '--colour'")):
            result = subprocess.run([HPU_SMI, *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(part, result.stderr, arguments)
            self.assertEqual(result.stderr.count("\n"), 1, arguments)
            if "--json" not in arguments:
                self.assertEqual(result.stdout, "", arguments)
        value = json.loads(run(HPU_SMI, "--json", "-i", "nowhere", code=1))
        self.assertEqual(value["code"], "NOT_FOUND")

    def test_an_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([HPU_SMI, "-Q", "index", "-f", "csv"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=60, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("No space left", result.stderr)

    def test_versions_and_help(self):
        self.assertRegex(run(HL_SMI, "-v"), r"^hl-smi \d+\.\d+\.\d+ \(OpenHPU\)")
        self.assertEqual(run(HPU_SMI, "--version").split()[1:], run(HL_SMI, "-v").split()[1:])
        text = run(HPU_SMI, "-h")
        for option in ("-L,--list-aips", "-q,--query", "-Q,--query-aip", "--quiet", "--verbose", "--json"):
            self.assertIn(option, text)

    def test_cli_md_has_every_option_and_the_page_every_field(self):
        with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as file:
            text = file.read()
        section = re.search(r"^## hpu-smi$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL).group(1)
        common = re.search(r"^## All tools$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL).group(1)
        options = set(re.findall(r"(?m)^ +(?:-\w,)?(--[a-z][a-z-]+)", run(HPU_SMI, "--help")))
        self.assertGreater(len(options), 15)
        self.assertEqual(sorted(option for option in options if option not in section + common), [])
        with open(os.path.join(ROOT, "docs", "hpu-smi.md"), encoding="utf-8") as file:
            page = file.read()
        error = subprocess.run([HPU_SMI, "-Q", "?"], capture_output=True, text=True, check=False).stderr
        for field in error.split("valid fields are ")[1].strip().split(", "):
            self.assertIn(f"`{field}`", page)


class Hlml(unittest.TestCase):
    """libhlml.so through ctypes, as Python monitors load it, says what hpu-smi says."""

    def setUp(self):
        # A sanitizer's runtime would have to be there before Python's own libraries.
        if os.environ.get("ASAN_OPTIONS") or os.environ.get("TSAN_OPTIONS"):
            self.skipTest("a library with a sanitizer cannot be loaded by this Python")
        self.hlml = ctypes.CDLL(os.path.join(BUILD, "lib", "libhlml.so"))
        self.assertEqual(self.hlml.hlml_init(), 0)
        self.addCleanup(self.hlml.hlml_shutdown)

    def text(self, function, device):
        buffer = ctypes.create_string_buffer(128)
        self.assertEqual(getattr(self.hlml, function)(device, buffer, 128), 0)
        return buffer.value.decode()

    def test_devices_are_those_of_hpu_smi(self):
        count = ctypes.c_uint()
        self.assertEqual(self.hlml.hlml_device_get_count(ctypes.byref(count)), 0)
        devices = json.loads(run(HPU_SMI, "--json"))["devices"]
        self.assertEqual(count.value, len(devices))
        for device in devices:
            handle, module = ctypes.c_void_p(), ctypes.c_uint()
            code = self.hlml.hlml_device_get_handle_by_pci_bus_id(device["bus_id"].encode(), ctypes.byref(handle))
            self.assertEqual(code, 0)
            self.assertEqual(self.text("hlml_device_get_uuid", handle), device["uuid"])
            self.assertEqual(self.text("hlml_device_get_name", handle), device["name"])
            self.assertEqual(self.text("hlml_device_get_serial", handle), device["serial"])
            self.assertEqual(self.hlml.hlml_device_get_module_id(handle, ctypes.byref(module)), 0)
            self.assertEqual(module.value, device["module_id"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
