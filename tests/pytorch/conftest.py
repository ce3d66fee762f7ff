# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import textwrap

import pytest
import torch

import hpu_torch  # noqa: F401: registers the device


def pytest_configure(config):
    config.addinivalue_line("markers", "long: what tools/test.sh --full runs alone")


@pytest.fixture(autouse=True)
def clean():
    """Each test begins with the CPU's numbers seeded, device and stream 0, and no counted fallback."""
    torch.manual_seed(1234)
    torch.hpu.set_device(0)
    torch.hpu.set_stream(torch.hpu.default_stream(0))
    hpu_torch.fallback.reset()
    hpu_torch.fallback.allow("all")
    yield


@pytest.fixture(params=["eager", "lazy"])
def mode(request):
    """Each test in eager and in lazy mode, with fallback forbidden and nothing counted. A file: pytestmark = pytest.mark.usefixtures("mode")."""
    torch.hpu.set_lazy(request.param == "lazy")
    hpu_torch.fallback.allow("none")
    hpu_torch.metrics.reset()
    yield request.param
    torch.hpu.set_lazy(False)


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in a process of its own; its output, or a failure with what it said."""
    def run(program, expect_error=False, **environment):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(program))
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "HPU_NODE": f"{os.environ.get('HPU_NODE', '0')}-{os.getpid()}", **{name: str(value) for name, value in environment.items()}})
        assert (done.returncode != 0) == expect_error, done.stdout + done.stderr
        return done.stdout + done.stderr
    return run


def pytest_collection_modifyitems(items):
    """Tracing takes a second or more: of whole networks, the compiled mode of these is in every run, the rest with what is long."""
    usual = {"mlp", "convolutions", "encoder", "lstm", "decoder", "unet"}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.path.name == "test_models.py" and parameters.get("mode") == "compiled":
            if item.originalname != "test_training_follows_the_cpus_losses" or parameters["name"] not in usual:
                item.add_marker(pytest.mark.long)
