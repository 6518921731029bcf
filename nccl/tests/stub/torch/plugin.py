"""The plugin, called as NCCL's proxy calls it: `ncclNet_v8_t` through ctypes."""

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_ulong,
    c_void_p,
)

HANDLE_BYTES = 128
HOST_MEMORY = 1
REMOTE_ERROR = 6
TAG = 7

LOGGER = CFUNCTYPE(None, c_int, c_ulong, c_char_p, c_int, c_char_p, c_char_p)


def call(*arguments):
    return CFUNCTYPE(c_int, *arguments)


class Net(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("init", call(LOGGER)),
        ("devices", call(POINTER(c_int))),
        ("get_properties", c_void_p),
        ("listen", call(c_int, c_void_p, POINTER(c_void_p))),
        ("connect", call(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
        ("accept", call(c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
        ("reg_mr", call(c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p))),
        ("reg_mr_dma_buf", c_void_p),
        ("dereg_mr", call(c_void_p, c_void_p)),
        ("isend", call(c_void_p, c_void_p, c_int, c_int, c_void_p, POINTER(c_void_p))),
        (
            "irecv",
            call(
                c_void_p,
                c_int,
                POINTER(c_void_p),
                POINTER(c_int),
                POINTER(c_int),
                POINTER(c_void_p),
                POINTER(c_void_p),
            ),
        ),
        ("iflush", c_void_p),
        ("test", call(c_void_p, POINTER(c_int), POINTER(c_int))),
        ("close_send", call(c_void_p)),
        ("close_recv", call(c_void_p)),
        ("close_listen", call(c_void_p)),
    ]


@LOGGER
def log(_level, _flags, _file, _line, _format, text):
    # The plugin's format is "%s".
    print(f"host:1:1 [0] NCCL INFO {text.decode()}", flush=True)


def check(code, what):
    if code != 0:
        kind = "ncclRemoteError" if code == REMOTE_ERROR else f"code {code}"
        raise RuntimeError(f"NCCL error: {what}: {kind}")


class Plugin:
    """The library, initialised once in a process."""

    only = None

    @classmethod
    def opened(cls):
        if cls.only is None:
            cls.only = Plugin()
        return cls.only

    def __init__(self):
        library = ctypes.CDLL(os.environ["NCCL_NET_PLUGIN"])
        self.net = Net.in_dll(library, "ncclNetPlugin_v8")
        check(self.net.init(log), "init")
        count = c_int()
        check(self.net.devices(byref(count)), "devices")
        assert count.value >= 1, "the plugin has no device"

    def connect(self, store):
        """Connects to the rank behind the store, in both directions."""
        net = self.net
        listener, sending, receiving, unused = c_void_p(), c_void_p(), c_void_p(), c_void_p()
        handle = ctypes.create_string_buffer(HANDLE_BYTES)
        check(net.listen(0, handle, byref(listener)), "listen")
        theirs = ctypes.create_string_buffer(store(handle.raw), HANDLE_BYTES)
        while not (sending.value and receiving.value):
            if not sending.value:
                check(net.connect(0, theirs, byref(sending), byref(unused)), "connect")
            if not receiving.value:
                check(net.accept(listener, byref(receiving), byref(unused)), "accept")
        check(net.close_listen(listener), "closeListen")
        return Connection(net, sending, receiving)


class Connection:
    """A connection in each direction to the other rank."""

    def __init__(self, net, sending, receiving):
        self.net, self.sending, self.receiving = net, sending, receiving

    def __call__(self, mine):
        """Sends bytes, and returns as many of the other rank's."""
        net, length = self.net, len(mine)
        out, into = ctypes.create_string_buffer(mine, length), ctypes.create_string_buffer(length)
        regions = [c_void_p(), c_void_p()]
        for comm, data, region in (
            (self.sending, out, regions[0]),
            (self.receiving, into, regions[1]),
        ):
            check(net.reg_mr(comm, data, length, HOST_MEMORY, byref(region)), "regMr")
        receive, send = c_void_p(), c_void_p()
        places = (c_void_p * 1)(ctypes.addressof(into))
        lengths, tags = (c_int * 1)(length), (c_int * 1)(TAG)
        handles = (c_void_p * 1)(regions[1])
        while not receive.value:
            check(
                net.irecv(self.receiving, 1, places, lengths, tags, handles, byref(receive)),
                "irecv",
            )
        while not send.value:
            check(net.isend(self.sending, out, length, TAG, regions[0], byref(send)), "isend")
        self.wait(send, receive)
        for comm, region in ((self.sending, regions[0]), (self.receiving, regions[1])):
            check(net.dereg_mr(comm, region), "deregMr")
        return into.raw

    def wait(self, *requests):
        done, size = c_int(), c_int()
        left = list(requests)
        while left:
            for request in list(left):
                check(self.net.test(request, byref(done), byref(size)), "test")
                if done.value:
                    left.remove(request)

    def close(self):
        check(self.net.close_send(self.sending), "closeSend")
        check(self.net.close_recv(self.receiving), "closeRecv")
