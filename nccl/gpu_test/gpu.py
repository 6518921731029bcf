"""The GPU of this machine, and NVIDIA's multi-process service."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from .errors import CannotTest

# A process of its own for everything that uses torch.
RANK_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py")
# Keeps a process off the MPS daemon of somebody else, which would run at the default place.
NO_MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}


def clean_environment():
    """The caller's environment without settings that would change what is tested."""
    ours = ("NCCL_", "BRAID_", "TORCH_NCCL_", "CUDA_MPS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def find_gpu(variables=NO_MPS):
    """What torch finds: versions, the GPU's name, its memory in bytes."""
    try:
        done = subprocess.run(
            [sys.executable, RANK_PROGRAM, "probe"],
            env=clean_environment() | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotTest("torch did not say within 120 s whether there is a GPU") from error
    if done.returncode != 0:
        complaint = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CannotTest(f"torch does not start: {complaint[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if "missing" in found:
        raise CannotTest(found["missing"])
    return found


class Mps:
    """NVIDIA's multi-process service, if its daemon starts: processes share the GPU at once.

    `environment` leads a program to it. `why_not` says why there is none.
    """

    def __init__(self):
        self.environment, self.why_not = {}, None
        self.control = shutil.which("nvidia-cuda-mps-control")
        if self.control is None:
            self.why_not = "no nvidia-cuda-mps-control"
            return
        # The name of a socket in it has to be shorter than 108 bytes.
        folder = tempfile.mkdtemp(prefix="braid-mps-")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        try:
            self.call(["-d"])
            # Only a program that uses the GPU shows whether the daemon can start a server.
            find_gpu(self.environment)
        except (OSError, subprocess.SubprocessError, CannotTest) as error:
            self.stop()
            self.why_not = f"the MPS daemon did not start: {error}"

    def call(self, arguments, say=""):
        # No pipe for its output: the daemon would keep that open.
        subprocess.run(
            [self.control, *arguments],
            input=say,
            env=clean_environment() | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=20,
            check=True,
        )

    def stop(self):
        """Ends the daemon, once its programs have ended."""
        if self.environment:
            # If it does not obey, nothing here depends on that.
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                self.call([], "quit\n")
            shutil.rmtree(self.environment["CUDA_MPS_PIPE_DIRECTORY"], ignore_errors=True)
        self.environment = {}
