"""Two ranks with the same settings, each a process of rank.py."""

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import time

from .errors import Failed, Hung
from .gpu import NO_MPS, RANK_PROGRAM, clean_environment


class Pair:
    """Two rank processes, which run while the pair is entered.

    `folder` gets their logs. A rank that takes `limit` seconds for an answer hangs.
    """

    def __init__(self, plugin, settings, max_bytes, limit, folder):
        self.plugin, self.settings, self.max_bytes = plugin, settings, max_bytes
        self.limit, self.folder = limit, folder
        self.ranks, self.pipes = [], []

    def __enter__(self):
        os.makedirs(self.folder)
        try:
            for rank in (0, 1):
                self.start(rank)
            self.join()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def start(self, rank):
        reading, writing = os.pipe()
        fixed = {
            "NCCL_NET_PLUGIN": self.plugin,
            # NCCL 2.27.3 to 2.29.7 forget the plugin's name when they unload it, so the next
            # process group would find no network. This keeps the plugin loaded.
            "NCCL_NET_PLUGIN_REF_COUNT": "1",
            # On different hosts, so it seems: otherwise NCCL refuses to share a GPU.
            "NCCL_HOSTID": f"h{rank}",
            "NCCL_P2P_DISABLE": "1",
            "NCCL_SHM_DISABLE": "1",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET",
            # Torch reports NCCL's error after four times the latter. The default is a minute.
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
            "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1",
            "GPU_TEST_ANSWERS": str(writing),
            "PYTHONUNBUFFERED": "1",
        }
        with open(self.log_path(rank), "wb") as log:
            child = subprocess.Popen(
                [sys.executable, RANK_PROGRAM, str(rank), str(self.max_bytes)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                env=clean_environment() | NO_MPS | fixed | self.settings,
            )
        os.close(writing)
        self.ranks.append(child)
        self.pipes.append(reading)

    def join(self):
        """Has the ranks make their process group."""
        self.ask("set-up", do="join", port=free_port())

    def ask(self, what, **command):
        """Has both ranks obey a command. Returns both answers."""
        self.tell(**command)
        answers = self.answers(what, [0, 1], self.limit)
        return [answers[rank] for rank in (0, 1)]

    def tell(self, **command):
        """Gives both ranks a command."""
        line = json.dumps(command).encode() + b"\n"
        for child in self.ranks:
            # If the rank has died, its pipe of answers says so.
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(line)
                child.stdin.flush()

    def answers(self, what, ranks, limit):
        """The answer of each of these ranks. Of several failures the first is reported."""
        until = time.monotonic() + limit
        said = {rank: b"" for rank in ranks}
        answers = {}
        while len(answers) < len(ranks):
            missing = [rank for rank in ranks if rank not in answers]
            left = until - time.monotonic()
            if left <= 0:
                names = " and ".join(f"rank {rank}" for rank in missing)
                raise Hung(f"{what}: {names} hung: no answer within {limit} s; {self.logs()}")
            readable, _, _ = select.select([self.pipes[rank] for rank in missing], [], [], left)
            for rank in missing:
                if self.pipes[rank] in readable:
                    said[rank] += self.read(what, rank)
                if said[rank].endswith(b"\n"):
                    answers[rank] = self.judge(what, rank, json.loads(said[rank]))
        return answers

    def read(self, what, rank):
        chunk = os.read(self.pipes[rank], 65536)
        if not chunk:
            raise Failed(f"{what}: rank {rank} died: {self.cause_of_death(rank)}")
        return chunk

    def judge(self, what, rank, answer):
        if "error" in answer:
            raise Failed(f"{what}: rank {rank}: {answer['error'].splitlines()[0]}; {self.logs()}")
        if "wrong" in answer:
            raise Failed(f"{what}: rank {rank}: WRONG RESULT: {answer['wrong']}")
        return answer

    def cause_of_death(self, rank):
        try:
            status = self.ranks[rank].wait(10)
        except subprocess.TimeoutExpired:
            return f"it closed its pipe; {self.logs()}"
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        said = [line for line in self.log(rank).splitlines() if "rror" in line]
        return f"{how}; {said[-1].strip() if said else self.logs()}"

    def log_path(self, rank):
        return os.path.join(self.folder, f"rank{rank}.log")

    def log(self, rank):
        """What a rank, torch, NCCL and the plugin have said."""
        with open(self.log_path(rank), encoding="utf-8", errors="replace") as file:
            return file.read()

    def logs(self):
        return f"logs: {self.folder}/rank*.log"

    def need_transport(self, net):
        """Fails unless both ranks are connected by this network and nothing else, says NCCL."""
        for rank in (0, 1):
            log = self.log(rank)
            used = set(re.findall(r"\bvia (NET/\w+|P2P|SHM)", log))
            if used != {f"NET/{net}"}:
                others = ", ".join(sorted(used)) or "nothing"
                complaint = re.findall(r"NCCL (?:INFO|WARN) (.*(?:[Pp]lugin|rror).*)", log)
                why = f"NCCL said: {complaint[-1].strip()}" if complaint else self.logs()
                raise Failed(
                    f"NCCL ignored the plugin: rank {rank} is to be connected `via NET/{net}` "
                    f"and is connected via {others}; {why}"
                )

    def end(self):
        for child in self.ranks:
            child.kill()
            child.wait()
            # Closing it flushes what the rank did not live to read.
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        for pipe in self.pipes:
            os.close(pipe)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
