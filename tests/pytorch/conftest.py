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
    config.addinivalue_line("markers", "long_in(modes): in these modes it is long, as another mode has the same in every run")


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


# Each network is in every run in some mode, and each mode with some networks (test_compile has more of compiled mode).
USUAL = {"eager": {"mlp", "encoder", "rnn", "gru", "unet upsampled"},
         "lazy": {"mlp", "convolutions", "encoder", "lstm", "rnn", "decoder", "unet", "diffusion", "detector"}, "compiled": {"mlp", "encoder", "lstm", "unet"}}


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        mode = parameters.get("mode")
        is_long = any(mode in mark.args for mark in item.iter_markers("long_in"))
        if item.path.name == "test_models.py":
            if item.originalname == "test_training_follows_the_cpus_losses":
                is_long = parameters["name"] not in USUAL[mode]
            else:
                is_long = is_long or mode == "compiled"
        if is_long:
            item.add_marker(pytest.mark.long)
