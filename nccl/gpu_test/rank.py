"""The part of gpu-test.py that uses torch: a rank, and the question which GPU there is.

gpu-test.py starts it as a process of its own: `gpu_test_rank.py RANK MAX_BYTES`, or
`gpu_test_rank.py probe`. A rank obeys commands on its standard input, a line of JSON each, and
answers each with a line of JSON on the descriptor that GPU_TEST_ANSWERS names: NCCL's log goes to
the standard output.
"""

import ctypes
import datetime
import functools
import json
import os
import platform
import signal
import sys
import time

import torch
import torch.distributed as dist

# The smallest element that is tested has two bytes.
MIN_ITEM_BYTES = 2
# Inputs begin at one of so many places in the random values.
OFFSETS = 4096
# No input holds this value, so an element of a result that was not written shows.
UNTOUCHED = 99


class Rank:
    """One rank: its process group and its tensors."""

    def __init__(self, rank, max_bytes):
        self.rank, self.max_bytes = rank, max_bytes
        self.cases = 0
        torch.cuda.set_device(0)

    def join(self, port):
        """Makes the default process group. Rank 0 serves the store, so it has to outlive rank 1."""
        dist.init_process_group(
            "nccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=self.rank,
            world_size=2,
            # Longer than every limit of gpu-test.py: an error within those is NCCL's own.
            timeout=datetime.timedelta(minutes=20),
        )
        dist.barrier()

    def leave(self):
        """Destroys the default process group."""
        torch.cuda.synchronize()
        dist.destroy_process_group()

    def check(self, collective, dtype, size):
        """Runs a collective once and compares the result with the CPU's."""
        given, expected = self.case(collective, *self.inputs(dtype, size))
        given = given.to("cuda")
        out = torch.full((len(expected),), UNTOUCHED, dtype=given.dtype, device="cuda")
        result = self.run(collective, given, out)
        torch.cuda.synchronize()
        return compare(result.cpu(), expected)

    def several(self, groups, dtype, size):
        """Runs an all-reduce in several communicators at once."""
        made = [dist.new_group([0, 1]) for _ in range(groups)]
        runs = []
        for group in made:
            mine, theirs = self.inputs(dtype, size)
            tensor = mine.to("cuda")
            work = dist.all_reduce(tensor, group=group, async_op=True)
            runs.append((work, tensor, mine + theirs))
        for work, _, _ in runs:
            work.wait()
        torch.cuda.synchronize()
        answers = [compare(tensor.cpu(), expected) for _, tensor, expected in runs]
        for group in made:
            dist.destroy_process_group(group)
        return next((answer for answer in answers if answer), {})

    def measure(self, collective, size, runs):
        """Seconds of one run, the mean of several in a row. `size` is that of the longer buffer."""
        longer = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
        out = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
        half = len(out) // 2
        given = longer[:half] if collective == "all_gather" else longer
        out = out[:half] if collective == "reduce_scatter" else out
        self.run(collective, given, out)
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            self.run(collective, given, out)
        torch.cuda.synchronize()
        return {"seconds": (time.perf_counter() - start) / runs}

    def endless(self, size, started):
        """All-reduces until one fails. Makes the file `started` after the first."""
        tensor = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        with open(started, "w"):
            pass
        while True:
            dist.all_reduce(tensor)
            torch.cuda.synchronize()

    @functools.cached_property
    def values(self):
        """Random values of both ranks. The sum of two is exact in every type."""
        count = self.max_bytes // MIN_ITEM_BYTES + OFFSETS
        return [random_values(seed, count) for seed in (0, 1)]

    def inputs(self, dtype, size):
        """This rank's input of the next case and the other's, on the CPU: not those of the last."""
        dtype = getattr(torch, dtype)
        # Two elements at least, one for each rank, and an even number of them.
        count = max(size // dtype.itemsize // 2 * 2, 2)
        self.cases += 1
        start = self.cases * 31 % OFFSETS
        values = [value[start : start + count].to(dtype) for value in self.values]
        return values[self.rank], values[1 - self.rank]

    def case(self, collective, mine, theirs):
        """What this rank gives to a collective, and what it should get."""
        first, second = (mine, theirs) if self.rank == 0 else (theirs, mine)
        half = len(mine) // 2
        own = slice(self.rank * half, (self.rank + 1) * half)
        return {
            "all_reduce": (mine, first + second),
            "all_gather": (mine[:half], torch.cat([first[:half], second[:half]])),
            "reduce_scatter": (mine, (first + second)[own]),
            "broadcast": (mine, first),
            "all_to_all": (mine, torch.cat([first[own], second[own]])),
            "send_recv": (mine, theirs),
        }[collective]

    def run(self, collective, given, out):
        """Starts a collective. Returns the tensor that will hold the result."""
        if collective == "all_reduce":
            dist.all_reduce(given)
            return given
        if collective == "broadcast":
            dist.broadcast(given, src=0)
            return given
        if collective == "all_gather":
            dist.all_gather_into_tensor(out, given)
        elif collective == "reduce_scatter":
            dist.reduce_scatter_tensor(out, given)
        elif collective == "all_to_all":
            dist.all_to_all_single(out, given)
        else:
            peer = 1 - self.rank
            both = [dist.P2POp(dist.isend, given, peer), dist.P2POp(dist.irecv, out, peer)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
        return out


def random_values(seed, count):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randint(-60, 61, (count,), dtype=torch.int8, generator=generator)


def compare(result, expected):
    """Nothing, or which elements are wrong."""
    if torch.equal(result, expected):
        return {}
    wrong = torch.nonzero(result != expected).flatten()
    at = wrong[0].item()
    was, should = result[at].item(), expected[at].item()
    return {"wrong": f"{len(wrong)} of {len(expected)}, first [{at}]: {was} instead of {should}"}


def obey(rank):
    """Obeys commands until there are no more."""
    # Dies with its parent, whatever it is doing: PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    with os.fdopen(int(os.environ.pop("GPU_TEST_ANSWERS")), "w", buffering=1) as answers:
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer = getattr(rank, command.pop("do"))(**command) or {}
            except Exception as error:  # Whatever it is, gpu-test.py reports it.
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers)


def probe():
    """Prints what torch finds on this machine, as JSON."""
    found = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    if not torch.version.cuda:
        found["missing"] = f"torch {torch.__version__} is built without CUDA"
    elif not torch.cuda.is_available():
        found["missing"] = f"torch {torch.__version__} finds no GPU that it can use"
    else:
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        found["gpu"] = torch.cuda.get_device_name(0)
        found["free_bytes"], found["total_bytes"] = torch.cuda.mem_get_info(0)
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        probe()
    else:
        obey(Rank(int(sys.argv[1]), int(sys.argv[2])))
