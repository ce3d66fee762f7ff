#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hccl-perf as other programs see it: JSON, columns, exit codes, wrong uses. Runs the program of HPU_BINARY_DIR (default: build)."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERF = os.path.join(os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build"), "bin", "hccl-perf")
ALL = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"]
FACTORS = {"all_reduce": 2 * 3 / 4, "all_gather": 3 / 4, "reduce_scatter": 3 / 4, "all_to_all": 3 / 4, "broadcast": 1, "reduce": 1,
           "send_recv": 1}


def run(*arguments, code=0):
    result = subprocess.run([PERF, *arguments], capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == code, f"{arguments}: exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def job(environments, *arguments):
    """A rank for each environment, all at once: (exit code, stdout, stderr) of each."""
    ranks = [subprocess.Popen([PERF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, **environment})
             for environment in environments]
    ends = [rank.communicate(timeout=200) for rank in ranks]
    return [(rank.returncode, *end) for rank, end in zip(ranks, ends)]


# Jobs are told apart by what their launcher calls them: those of another run of this file have other names.
JOB = 20000 + os.getpid() % 20000


def open_mpi(ranks, namespace=str(JOB)):
    return [{"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(ranks), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
             "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks), "PMIX_RANK": str(rank), "PMIX_NAMESPACE": namespace} for rank in range(ranks)]


def torchrun(ranks, port=JOB):
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(ranks)]


def srun(ranks):
    return [{"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "SLURM_LOCALID": str(rank), "SLURM_JOB_ID": str(JOB),
             "SLURM_STEP_ID": "0"} for rank in range(ranks)]


def hydra(ranks):
    return [{"PMI_RANK": str(rank), "PMI_SIZE": str(ranks)} for rank in range(ranks)]


def results(*arguments):
    return json.loads(run(*arguments, "--json", "--target", "gaudi2").stdout)["results"]


class Perf(unittest.TestCase):
    def check_line(self, line, operation, ranks):
        for key in ("bytes", "count", "wrong", "root"):
            self.assertIsInstance(line[key], int, key)
        for key in ("wall_us", "wall_algbw_GBps", "wall_busbw_GBps", "device_us", "device_algbw_GBps", "device_busbw_GBps"):
            self.assertIsInstance(line[key], (int, float), key)
            self.assertGreater(line[key], 0, key)
        self.assertEqual(line["wrong"], 0)
        self.assertEqual(line["ranks"], ranks)
        self.assertAlmostEqual(line["device_algbw_GBps"], line["bytes"] / line["device_us"] / 1e3, delta=1e-6 * line["device_algbw_GBps"])
        self.assertAlmostEqual(line["device_busbw_GBps"] / line["device_algbw_GBps"], FACTORS[operation], delta=1e-6)

    def test_every_operation_is_right_with_ranks_as_processes(self):
        for operation in ALL:
            lines = results(operation, "--ranks", "4", "-b", "24", "-e", "98304", "-f", "64", "--iters", "2", "-w", "1")
            places = {line["in_place"] for line in lines}
            self.assertEqual(places, {False} if operation in ("all_to_all", "send_recv") else {False, True})
            for line in lines:
                self.check_line(line, operation, 4)

    def test_every_type_and_reduction_is_right_with_ranks_as_threads(self):
        lines = results("all_reduce", "--ranks", "3", "--threads", "-d", "all", "-o", "all", "-b", "1000", "-e", "1000", "--iters", "1", "-w", "0")
        self.assertEqual(len(lines), 2 * 12 * 5)
        self.assertTrue(all(line["wrong"] == 0 for line in lines), [line for line in lines if line["wrong"]])

    def test_device_time_is_the_same_in_each_run_and_lies_between_the_data_sheets_bound_and_a_share_above_it(self):
        """The bound is arithmetic of this test: a Gaudi 2 has 3 ports of 100 Gb/s to each other one (data sheet), and each
        of n ranks must send every other one 2/n of the data of an all-reduce, 1/n of the result of an all-gather."""
        for operation, ranks, share in (("all_reduce", 2, 2), ("all_reduce", 4, 2), ("all_gather", 4, 1)):
            arguments = (operation, "--ranks", str(ranks), "-b", "4M", "-e", "4M", "--iters", "4", "--no-check")
            first, second = results(*arguments), results(*arguments)
            bound = share * (4 << 20) / ranks / (3 * 100e9 / 8) * 1e6
            for one, other in zip(first, second):
                self.assertEqual(one["device_us"], other["device_us"])
                self.assertIsNone(one["wrong"])
                # Headers take 2 % of the wire; start, two latencies and the last slice's reduction a few us more.
                self.assertGreater(one["device_us"], 1.02 * bound, (operation, ranks))
                self.assertLess(one["device_us"], 1.03 * bound + 12, (operation, ranks))

    def test_ctrl_c_prints_what_was_measured(self):
        for more in ((), ("--threads",)):
            arguments = [PERF, "all_reduce", "--ranks", "2", "--target", "gaudi2", "-b", "1K", "-e", "64M", "-i", "17K", "--iters", "1", "-w", "0",
                         *more]
            for form in ((), ("--json",)):
                process = subprocess.Popen([*arguments, *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                self.addCleanup(process.kill)
                if form:
                    time.sleep(3)  # Nothing is printed until the end.
                else:
                    while not re.match(r" +\d", process.stdout.readline()):  # Each line comes when it is measured.
                        self.assertIsNone(process.poll())
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=100)
                self.assertEqual(process.returncode, -signal.SIGINT, err)
                self.assertIn("interrupted by SIGINT", err)
                if form:
                    value = json.loads(out)
                    self.assertIs(value["interrupted"], True)
                    self.assertGreater(len(value["results"]), 0)
                    self.assertEqual(value["wrong"], 0)
                else:
                    self.assertIn("Avg bus bandwidth", out)

    def test_ranks_of_several_nodes_are_right_over_each_network(self):
        for transport in ("tcp", "roce"):
            for operation in ALL:
                lines = results(operation, "--ranks", "4", "--nodes", "2", "--transport", transport, "-b", "24", "-e", "393216", "-f", "128",
                                "--iters", "2", "-w", "1")
                for line in lines:
                    self.check_line(line, operation, 4)

    def test_ranks_over_verbs_without_an_adapter_all_say_what_is_missing(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("there is an adapter")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            place = f"127.0.0.1:{probe.getsockname()[1]}"
        environments = [{**rank, "HCCL_COMM_ID": place, "HPU_NODE": f"{os.environ.get('HPU_NODE', 'perf')}.verbs.{at}", "HPU_COMM_NETWORK": "verbs", "LOCAL_RANK": "0",
                         "LOCAL_WORLD_SIZE": "1"} for at, rank in enumerate(torchrun(2, JOB + 1))]
        for code, _, error in job(environments, "all_reduce", "-b", "4", "-e", "4", "--target", "gaudi2"):
            self.assertEqual(code, 1, error)
            self.assertRegex(error, "this machine has no RDMA device|needs the library libibverbs|built without libibverbs' headers")

    def test_ranks_of_a_launcher_take_their_own_devices_and_say_what_carries_data(self):
        own = f"own.{os.getpid()}"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            where = f"127.0.0.1:{one.getsockname()[1]}"
        common = {"HPU_LOG_LEVEL": "info", "HCCL_COMM_ID": where, "HPU_COMM_NETWORK": "roce"}
        with tempfile.TemporaryDirectory() as folder:
            environments = [{**one, **common, "HPU_NODE": f"{own}.{rank // 2}", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2",
                             "HPU_COMM_ROCE_PCAP": os.path.join(folder, "job.pcap")}
                            for rank, one in enumerate(torchrun(4, JOB + 7))]
            for rank, (code, _, error) in enumerate(job(environments, "all_reduce", "-b", "1K", "-e", "1K", "--target", "gaudi2")):
                self.assertEqual(code, 0, error)
                self.assertRegex(error, r"on device 0000:1a:00\.0 is ready" if rank % 2 else r"on device 0000:19:00\.0 is ready")
                self.assertRegex(error, r"data to other nodes by roce from \S+ \(lo, MTU \d+\).*; it is of node "
                                 + f"{rank // 2} of 2")
            # Without %p in the name each process has a file of its own all the same.
            files = os.listdir(folder)
            self.assertEqual(len(files), 4, files)
            for file in files:
                self.assertRegex(file, r"^job\.pcap\.\d+$")

    def test_device_time_between_nodes_is_the_same_in_ten_runs_over_any_network(self):
        arguments = ("all_reduce", "--ranks", "5", "--nodes", "2", "-b", "1K", "-e", "1M", "-f", "32", "--iters", "3", "--no-check")
        runs = [[line["device_us"] for line in results(*arguments, "--transport", transport)] for transport in ["tcp", "roce"] * 5]
        self.assertEqual(runs, [runs[0]] * 10)

    def test_between_nodes_device_time_lies_between_the_data_sheets_bound_and_a_share_above_it(self):
        """Four Gaudi 2 on two nodes: in a node the one link of 3 ports of 100 Gb/s carries half of the data for the
        reduce-scatter and half for the all-gather; the rails carry half as much beside it."""
        line = results("all_reduce", "--ranks", "4", "--nodes", "2", "-b", "16M", "-e", "16M", "--iters", "2", "--no-check")[0]
        bound = (16 << 20) / (3 * 100e9 / 8) * 1e6
        self.assertGreater(line["device_us"], 1.01 * bound)
        self.assertLess(line["device_us"], 1.05 * bound)
        priced = results("all_reduce", "--ranks", "4", "--nodes", "2", "-b", "16M", "-e", "16M", "--no-data")[0]
        self.assertEqual(priced["algorithm"], line["algorithm"])

    def test_ranks_of_a_launcher_on_several_machines_meet_at_the_id(self):
        """As two machines would be: nobody finds anybody else but at HCCL_COMM_ID."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            where = f"127.0.0.1:{one.getsockname()[1]}"
        own = os.environ.get("HPU_NODE", "perf")
        environments = [{**environment, "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2", "HCCL_COMM_ID": where,
                         "HPU_NODE": f"{own}.{rank // 2}"} for rank, environment in enumerate(torchrun(4))]
        ends = job(environments, "all_reduce", "-b", "1M", "-e", "1M", "--iters", "2", "--target", "gaudi2", "--json")
        self.assertEqual([end[0] for end in ends], [0] * 4, ends)
        for line in json.loads(ends[0][1])["results"]:
            self.check_line(line, "all_reduce", 4)
            self.assertGreater(line["predicted_us"], 0)
        self.assertEqual([end[1] for end in ends[1:]], [""] * 3, "only rank 0 speaks")
        environments = [{**environment, "HCCL_COMM_ID": ""} for environment in environments]
        self.assertIn("HCCL_COMM_ID=ip:port", job(environments[:1], "all_reduce")[0][2])

    def test_no_data_prices_schedules_of_any_size(self):
        lines = results("all_reduce", "--ranks", "8", "-b", "1K", "-e", "16G", "-f", "16384", "--no-data")
        self.assertEqual([line["bytes"] for line in lines], [1 << 10, 1 << 24])
        lines = results("all_gather", "--ranks", "8", "-b", "16G", "-e", "16G", "--no-data")
        self.assertEqual(lines[0]["bytes"], 1 << 34)
        self.assertIsNone(lines[0]["wall_us"])
        self.assertGreater(lines[0]["device_us"], lines[0]["lower_bound_us"])
        self.assertLess(lines[0]["lower_bound_us"] / lines[0]["device_us"], 0.99)

    def test_schedules_are_shown_and_written(self):
        text = run("all_reduce", "--ranks", "3", "--no-data", "-b", "1M", "-e", "1M", "--schedule").stdout
        self.assertRegex(text, r"reduce .*\n")
        with tempfile.TemporaryDirectory(prefix="hccl-perf-") as folder:
            prefix = os.path.join(folder, "ar")
            run("all_reduce", "--ranks", "3", "--no-data", "-b", "1M", "-e", "1M", "--chakra", prefix)
            for rank in range(3):
                with open(f"{prefix}.{rank}.json", encoding="utf-8") as file:
                    self.assertTrue(json.load(file))
        self.assertIn("--no-data", run("all_reduce", "--schedule", code=1).stderr)

    def test_columns_are_those_of_nccl_tests(self):
        lines = run("broadcast", "--ranks", "2", "-b", "4K", "-e", "4K", "--iters", "1", "--root", "1", "--explain").stdout.splitlines()
        header = next(line for line in lines if "#wrong" in line)
        self.assertRegex(header, r"^# +size +count +type +redop +root +place +wall time +algbw +busbw +#wrong +device time +algbw +busbw +predicted")
        row = next(line for line in lines if re.match(r" +4096 +1024 +float +none +1 +out ", line)).split()
        self.assertEqual(row[9], "0")
        # The closing line: the average of all lines' bus bandwidth, of wall times; of modelled ones when nothing was measured.
        places = [float(line.split()[8]) for line in lines if re.match(r" +4096 ", line)]
        average = float(re.fullmatch(r"# Avg bus bandwidth    : (\S+)", lines[-1]).group(1))
        self.assertEqual(len(places), 2)
        self.assertAlmostEqual(average, sum(places) / 2, delta=0.01)
        document = json.loads(run("all_reduce", "--ranks", "8", "-b", "1K", "-e", "1M", "-f", "32", "--no-data", "--json").stdout)
        self.assertAlmostEqual(document["device_avg_busbw_GBps"], sum(line["device_busbw_GBps"] for line in document["results"]) / 3)
        self.assertIsNone(document["wall_avg_busbw_GBps"])
        self.assertTrue(any("us" in line for line in lines if line.startswith("    #")), "the reason of the choice")

    def test_a_rank_of_somebodys_launcher_is_that_rank(self):
        for launcher, environments in (("Open MPI", open_mpi(4)), ("torchrun", torchrun(3)), ("Slurm", srun(2)), ("PMI", hydra(2)),
                                       ("Open MPI", open_mpi(1))):
            ends = job(environments, "all_gather", "-b", "64K", "-e", "64K", "--iters", "2", "--target", "gaudi2", "--json")
            self.assertEqual([end[0] for end in ends], [0] * len(ends), ends)
            document = json.loads(ends[0][1])
            self.assertEqual((document["launcher"], document["ranks"]), (launcher, len(ends)))
            self.assertEqual([line["in_place"] for line in document["results"]], [False, True])
            for line in document["results"]:
                self.assertEqual((line["wrong"], line["ranks"]), (0, len(ends)))
            self.assertEqual([end[1:] for end in ends[1:]], [("", "")] * (len(ends) - 1), "only rank 0 speaks")

    def test_jobs_side_by_side_do_not_meet(self):
        ends = job(torchrun(2, JOB) + torchrun(3, JOB + 1), "all_reduce", "-b", "1K", "-e", "1K", "--iters", "2")
        self.assertEqual([end[0] for end in ends], [0] * 5, ends)
        self.assertIn("all_reduce, 2 ranks of torchrun on gaudi2", ends[0][1])
        self.assertIn("all_reduce, 3 ranks of torchrun on gaudi2", ends[2][1])

    def test_ranks_that_are_asked_for_are_started_below_a_launcher_too(self):
        for option in ("--ranks", "-n"):
            ends = job(open_mpi(2)[1:], "all_reduce", option, "3", "-b", "1K", "-e", "1K", "--iters", "1")
            self.assertEqual(ends[0][0], 0, ends)
            self.assertIn("all_reduce, 3 ranks on gaudi2", ends[0][1])

    def test_only_the_first_rank_prices(self):
        ends = job(open_mpi(8), "all_reduce", "--no-data", "-b", "1M", "-e", "1M")
        self.assertEqual([end[0] for end in ends], [0] * 8)
        self.assertRegex(ends[0][1], r"8 ranks of Open MPI(.|\n)* 1048576 ")
        self.assertEqual({end[1] for end in ends[1:]}, {""})

    def test_the_first_rank_says_why_a_rank_of_a_launcher_failed(self):
        environments = torchrun(3)
        environments[2]["HPU_SIM_HBM_BYTES"] = "4M"
        ends = job(environments, "all_reduce", "-b", "8M", "-e", "8M")
        self.assertEqual([end[0] for end in ends], [1] * 3, ends)
        self.assertRegex(ends[0][2], r"error: .*rank 2: all_reduce .*out of HBM")
        self.assertEqual([end[1:] for end in ends[1:]], [("", "")] * 2)
        environments[2] = {**torchrun(3)[2], "HPU_NODE_TARGET": "gaudi3"}
        ends = job(environments, "all_reduce", "-b", "1K", "-e", "1K", "--target", "gaudi2")
        self.assertEqual([end[0] for end in ends], [1] * 3, ends)
        self.assertRegex(ends[0][2], r"error: rank 2: .*gaudi3")

    def test_ranks_that_do_not_come_are_named(self):
        few = [{**environment, "HPU_COMM_INIT_TIMEOUT_MS": "400"} for environment in open_mpi(4)]
        ends = job(few[:2], "all_reduce", "-b", "1K", "-e", "1K")
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        self.assertRegex(ends[0][2], r"error: rank 0 of 4 \(Open MPI\) waited 400 ms .* rank 2, 3 on this machine; --ranks N")
        ends = job(few[3:], "all_reduce", "-b", "1K", "-e", "1K")
        self.assertEqual(ends[0][0], 1)
        self.assertRegex(ends[0][2], r"error: rank 3 of 4 \(Open MPI\) found no rank 0 .* within 400 ms")
        for change, words in (({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "the 4 ranks of Open MPI are on several machines: set HCCL_COMM_ID"),
                              ({"PMIX_RANK": "3"}, "contradicts itself"), ({}, "--threads")):
            ends = job([{**few[0], **change}], "all_reduce", *(() if change else ("--threads",)))
            self.assertEqual(ends[0][0], 1)
            self.assertIn(words, ends[0][2])

    def test_wrong_uses_say_what_is_right(self):
        for arguments, words in (
                (("all_redcue",), "there is no collective 'all_redcue'; there are all_reduce"),
                (("all_reduce", "-d", "int4"), "there is no data type 'int4'"),
                (("all_reduce", "-o", "mean"), "there is no reduction 'mean'"),
                (("all_reduce", "--ranks", "9"), "8 devices"),
                (("all_reduce", "--ranks", "0"), "at least 1"),
                (("broadcast", "--root", "2"), "rank from 0 to 1"),
                (("all_reduce", "-b", "2M", "-e", "1M"), "--max-bytes"),
                (("all_reduce", "-f", "1"), "--factor"),
                (("all_reduce", "--nodes", "3"), "each needs one of the 2 ranks"),
                (("all_reduce", "--nodes", "0"), "each needs one"),
                (("all_reduce", "--nodes", "2", "--ranks", "17"), "give more --nodes"),
                (("all_reduce", "--nodes", "2", "--threads"), "a process is of one node"),
                (("all_reduce", "--nodes", "2", "--no-data", "--schedule"), "hccl-sim"),
                (("all_reduce", "--no-data", "--ranks", "9"), "9 ranks on 1 node: a node has 8 devices"),
                (("all_reduce", "--no-data", "--ranks", "300000", "--root", "all"), "a node has 8 devices"),
                (("all_reduce", "--timeout-ms", "-1"), "--timeout-ms"), (("all_reduce", "--timeout-ms", "0"), "--timeout-ms"),
                (("all_reduce", "--tuner-table", "/nowhere"), "/nowhere")):
            error = run(*arguments, code=1).stderr
            self.assertIn(words, error)
            self.assertIn("error: ", error)

    def test_its_options_are_documented(self):
        with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as file:
            page = file.read().split("## hccl-perf")[1].split("\n## ")[0]
        for option in re.findall(r"(--[a-z-]+)", run("--help").stdout.split("Environment")[0]):
            if option not in ("--help", "--version", "--json", "--quiet", "--verbose"):
                self.assertIn(option, page)


if __name__ == "__main__":
    sys.exit(unittest.main())
