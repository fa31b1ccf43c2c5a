"""Invalid input on a socket closes the connection and writes one line to the log."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest

from gridcore.nodes.kinds import MessageKind
from gridsim import ScenarioError, SchedulerError, array
from gridsim.emulation import wire
from gridsim.emulation.wire import (
    ClosedConnections,
    Conversation,
    Greeting,
    Introduction,
    Kind,
    decoder_of,
    frame,
    message_frame,
)
from gridsim.support.random_streams import Streams

SECRET = bytes(range(32))
KINDS = [
    Kind(0, MessageKind("share", 0, 100, {"application": int, "tasks": int}, True, ("on_share",))),
    Kind(1, MessageKind("matrix", 1, 100, {"cells": array(float)}, False, ("on_matrix",))),
    Kind(2, MessageKind("counts", 2, 100, {"counts": array(np.uint16, ndim=1)}, False, ("on_counts",))),
]


class Server:
    """Server that listens like a process of an emulation, and stores received messages."""

    def __init__(self) -> None:
        self.handled: list[Any] = []
        self.met: list[Greeting] = []
        self.pending_greetings: dict[Conversation, None] = {}
        self.closed_connections = ClosedConnections()

    def handle(self, talk: Conversation, message: Any) -> None:
        kind = next(kind for kind in KINDS if kind.declared.name == message.kind)
        self.handled.append(kind.unpack(message))

    def __call__(self) -> Conversation:
        return Conversation(
            self.handle,
            lambda talk: None,
            decoder=decoder_of(KINDS),
            secret=SECRET,
            greet=lambda talk, greeting: self.met.append(greeting),
            pending_greetings=self.pending_greetings,
            closed_connections=self.closed_connections,
        )


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the body of a frame."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def greeting_to(reader: asyncio.StreamReader) -> bytes:
    """Return the greeting with which process 3 answers the challenge that arrives."""
    return Introduction(SECRET, 3, 0).greeting(await read_frame(reader))


def talk(*pieces: bytes, greet: bool = False, wait: float = 0.0) -> Server:
    """Connect, send `pieces`, and wait until the server has closed the connection.

    With `greet`, the pieces follow a valid greeting, and pieces of one byte are sent if `wait` > 0.
    """

    async def say(server: Server, port: int) -> None:
        reader, writer = await asyncio.open_connection(wire.LOOPBACK, port)
        content = [await greeting_to(reader) if greet else b"", *pieces]
        for part in [bytes([byte]) for byte in b"".join(content)] if wait else content:
            writer.write(part)
            await asyncio.sleep(wait)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 5.0)
        writer.close()

    return with_server(say)


def with_server(say: Callable[[Server, int], Awaitable[None]]) -> Server:
    server = Server()

    async def main() -> None:
        listening = await asyncio.get_running_loop().create_server(server, wire.LOOPBACK, 0)
        try:
            await say(server, listening.sockets[0].getsockname()[1])
        finally:
            listening.close()
            await listening.wait_closed()

    asyncio.run(main())
    return server


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "gridsim.emulation"]


STRANGE = {
    "garbage": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "oversized": struct.pack(">I", 2**31) + b"x",
    "another secret": Introduction(bytes(32), 3, 0).greeting(msgspec.msgpack.encode(bytes(32))),
    "a greeting to another challenge": Introduction(SECRET, 3, 0).greeting(msgspec.msgpack.encode(bytes(32))),
    "the secret itself": frame(Greeting(SECRET, bytes(32), 3, 0)),
    "a short challenge": frame(Greeting(bytes(32), b"", 3, 0)),
    "no greeting": frame([1, 2, 3]),
    "no msgpack": struct.pack(">I", 3) + b"\xc1\xc1\xc1",
}


@pytest.mark.parametrize("name", STRANGE)
def test_connections_without_a_valid_greeting_are_closed(name: str, caplog: pytest.LogCaptureFixture) -> None:
    server = talk(STRANGE[name])
    assert not server.handled and not server.met
    assert len(lines(caplog)) == 1


def test_random_bytes_are_never_handled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rng = Streams(5)("wire fuzz")
    monkeypatch.setattr(wire, "_LOG_EVERY", 0.0)

    async def say(server: Server, port: int) -> None:
        for greeted in [False, True] * 40:
            reader, writer = await asyncio.open_connection(wire.LOOPBACK, port)
            body = rng.bytes(int(rng.integers(1, 200)))
            head = struct.pack(">I", int(rng.choice([len(body), len(body), 2**30])))
            writer.write((await greeting_to(reader) if greeted else b"") + head + body)
            writer.write_eof()
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5.0)
            writer.close()

    server = with_server(say)
    assert not server.handled and len(server.met) == 40
    assert 40 <= len(lines(caplog)) <= 80  # a connection that ends within a frame logs nothing


#: The first fields of all messages: node, sender, due, start, incarnation, move, tasks.
HEADER = [0, 1, 0, 0, 0, 0, []]
WRONG = {
    "an unknown kind": [9, *HEADER, 5, 6],
    "a text for a node": [0, "0", *HEADER[1:], 5, 6],
    "a missing field": [0, *HEADER, 5],
    "a further field": [0, *HEADER, 5, 6, 7],
    "a float for an int": [0, *HEADER, 5, 6.5],
    "a text for an int": [0, *HEADER, "5", 6],
    "an int beyond 64 bits": [0, *HEADER, 2**64 - 1, 6],
    "an array of another length": [1, *HEADER, [[3], b"x" * 16]],
    "an array of three dimensions": [1, *HEADER, [[1, 1, 1], b"x" * 8]],
    "an array of a negative length": [1, *HEADER, [[-1, -1], b"x" * 8]],
    "a huge array": [1, *HEADER, [[2**40, 2**40], b"x" * 8]],
    "a matrix for a vector": [2, *HEADER, [[2, 2], b"x" * 8]],
    "elements of 64 bits for 16": [2, *HEADER, [[2], b"x" * 16]],
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_messages_close_the_connection(name: str, caplog: pytest.LogCaptureFixture) -> None:
    body = msgspec.msgpack.encode(WRONG[name])
    server = talk(struct.pack(">I", len(body)) + body, greet=True)
    assert not server.handled and len(lines(caplog)) == 1


def test_an_incomplete_greeting_closes_the_connection_after_a_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wire, "PATIENCE", 0.1)
    server = talk(STRANGE["another secret"][:10])
    assert not server.met and lines(caplog) == ["connection closed: no greeting within 0.1 s"]


def test_a_greeting_may_come_in_pieces() -> None:
    good = message_frame(KINDS[0].pack(1, message(0, application=5, tasks=6), 3, tasks=((0, 6),)))
    server = talk(good, STRANGE["oversized"], greet=True, wait=0.0005)
    assert [message.tasks for message in server.handled] == [6]


def test_the_oldest_connections_are_closed_if_too_many_send_no_greeting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wire, "MAX_UNIDENTIFIED", 4)
    caplog.set_level(logging.WARNING)

    async def say(server: Server, port: int) -> None:
        open_ = [await asyncio.open_connection(wire.LOOPBACK, port) for _ in range(12)]
        reader, writer = await asyncio.open_connection(wire.LOOPBACK, port)
        writer.write(await greeting_to(reader))
        while not server.met or len(server.pending_greetings) > 4:
            await asyncio.sleep(0.005)
        assert not reader.at_eof()  # the oldest connections were closed
        for _, item in [*open_, (reader, writer)]:
            item.close()

    server = with_server(say)
    assert len(server.met) == 1 and not server.pending_greetings
    server.closed_connections.report()
    first, rest = lines(caplog)
    assert first == "connection closed: too many connections without a greeting"
    assert rest in (f"{first} (and {others} others before)" for others in (6, 7))


@pytest.mark.parametrize("secret", [SECRET, bytes(32)])
def test_a_process_talks_only_to_a_server_that_knows_the_secret(
    secret: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger that listens on the port of a process receives neither the secret nor a message."""
    received, ended = bytearray(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        challenge = bytes(reversed(range(32)))
        writer.write(frame(challenge))
        body = await read_frame(reader)
        received.extend(body)
        greeting = msgspec.msgpack.decode(body, type=Greeting)
        writer.write(frame(wire._proof(secret, "answer", challenge, greeting.challenge)))
        with suppress(ConnectionError):
            received.extend(await reader.read())
        writer.close()
        ended.set()

    async def main() -> bool:
        server = await asyncio.start_server(answer, wire.LOOPBACK, 0)
        connection = Conversation(
            lambda *_: None,
            lambda _: None,
            decoder=decoder_of(KINDS),
            secret=SECRET,
            introduction=Introduction(SECRET, 3, 0),
            closed_connections=ClosedConnections(),
        )
        port = server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: connection, wire.LOOPBACK, port)
        is_known = await asyncio.wait_for(connection.handshake, 5.0)
        connection.transport.abort()
        await asyncio.wait_for(ended.wait(), 5.0)
        await asyncio.sleep(0)
        server.close()
        return is_known

    assert asyncio.run(main()) == (secret == SECRET)
    assert SECRET not in received and len(lines(caplog)) == (secret != SECRET)


def test_a_proof_of_one_side_is_none_of_the_other() -> None:
    """A stranger cannot return a process its own greeting as an answer."""
    introduction = Introduction(SECRET, 3, 0)
    greeting = msgspec.msgpack.decode(introduction.greeting(msgspec.msgpack.encode(bytes(32)))[4:])
    with pytest.raises(msgspec.ValidationError, match="the proof of an answer"):
        introduction.check(msgspec.msgpack.encode(greeting[0]))


def test_fields_may_have_the_names_that_msgspec_uses() -> None:
    kind = Kind(0, MessageKind("x", 0, 100, {"type": int, "tag": int, "cls": int}, False, ("on_x",)))
    sent = kind.type(
        node=1, sender=2, _due=3, _start=3, _incarnation=0, _move=0, _tasks=(), type=5, tag=6, cls=7
    )
    assert kind.unpack(decoder_of([kind]).decode(message_frame(sent)[4:])).type == 5


def test_arrays_up_to_the_size_limit_arrive_unchanged() -> None:
    cells = np.arange(6.0).reshape(2, 3)
    come = round_trip(1, cells=cells)
    assert (come.cells == cells).all() and not come.cells.flags.writeable and come.sender == 2
    come = round_trip(2, counts=np.array([3, 65535], np.uint16))
    assert come.counts.dtype == np.uint16 and come.counts.tolist() == [3, 65535]
    text = (
        "^node 2: a message 'matrix' in an emulation must have at most 1048576 bytes, got 2097..., of "
        "which the array 'cells' has 2097152$"
    )
    with pytest.raises(SchedulerError, match=text):
        round_trip(1, cells=np.zeros(2**18))


def message(number: int, **fields: Any) -> Any:
    """Return a message of a kind as a node sends it."""
    declared = KINDS[number].declared
    return declared.message(2, [fields[name] for name in declared.fields])


def round_trip(number: int, **fields: Any) -> Any:
    """Return a message after encoding and decoding."""
    kind = KINDS[number]
    sent = message_frame(kind.pack(1, message(number, **fields), 3))
    return kind.unpack(decoder_of(KINDS).decode(sent[4:]))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost", "192.168.0.1"])
def test_only_the_loopback_address_is_allowed(host: str) -> None:
    with pytest.raises(ScenarioError, match=r"host must be 127\.0\.0\.1"):
        wire.check_address(host)
