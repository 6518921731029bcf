"""A first program: a server and a client in one process, over UDP.

The server hands the client the key of a NumPy array. The client writes into the array without
involving the server, and then sends a message.
"""

import threading

import numpy as np

import braid


def serve(engine: braid.Engine, listener: braid.Listener) -> None:
    """Hands out memory and waits for a message."""
    board = np.zeros(4096, dtype=np.float32)
    inbox = bytearray(4096)
    memory = engine.register(board)  # as long as it is kept
    request = listener.accept(timeout=10)
    qp = engine.create_qp()
    arrives = qp.recv(engine.register(inbox))  # before the peer may send
    request.accept(qp=qp, private_data=memory.key)

    message = arrives.wait(timeout=10)
    print("server:", bytes(inbox[: message.length]).decode(), message.imm)
    print("server: on the board:", board[:3])


def call(address: str) -> None:
    """Writes into the server's memory."""
    with braid.Engine() as engine:
        qp = engine.connect(address)
        assert qp.private_data is not None
        board = qp.remote(qp.private_data)
        values = np.array([3, 1, 4], dtype=np.float32)
        board.write(engine.register(values))
        # Work completes in posting order, so the WRITE has completed when the SEND has.
        qp.send(b"look at the board", imm=7).wait(timeout=10)


def main() -> None:
    """Runs both ends."""
    with braid.Engine(bind="127.0.0.1:0") as engine, engine.listen() as listener:
        server = threading.Thread(target=serve, args=[engine, listener])
        server.start()
        call(engine.address)
        server.join()


if __name__ == "__main__":
    main()
