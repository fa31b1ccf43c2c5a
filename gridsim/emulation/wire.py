"""Wire format of an emulation: msgpack frames on connections whose sides prove that they belong to the run.

A frame is its length (4 bytes, big endian) and a msgpack value.  Both sides of a connection know the secret
of the run, which is never sent: the listening process sends a random challenge, the other one answers with a
greeting that has a challenge of its own and a proof (HMAC-SHA256 of both challenges), and the listening
process answers with its proof.  A connection is closed if a proof is wrong, if a frame is too long, or if a
frame cannot be decoded.  Frames contain numbers, text and bytes, which are never executed.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
import operator
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gridcore.nodes.kinds import MessageKind
from gridsim.emulation.tasks import Parts
from gridsim.errors import ScenarioError, SchedulerError
from gridsim.scheduling.nodes.program import ArrayField
from gridsim.support.state import pack, unpack

#: The only address on which an emulation listens, and to which it connects.
LOOPBACK = "127.0.0.1"
#: Maximum size of a frame, and of a frame before the greeting, bytes.
LONGEST, LONGEST_GREETING = 1 << 24, 256
#: Time limit for the greeting of a connection, s, and maximum number of connections without a greeting.
PATIENCE, MAX_UNIDENTIFIED = 2.0, 64
#: Maximum size of a message between nodes, bytes, well below `LONGEST`.
LONGEST_MESSAGE = 1 << 20

#: Size of a challenge, bytes.
_CHALLENGE_SIZE = 32
#: Minimum time between two lines of the log on closed connections, s.
_LOG_EVERY = 60.0

_HEAD = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_LOG = logging.getLogger("gridsim.emulation")


def check_address(host: str) -> str:
    """Return `host` if it is the loopback address; raise ScenarioError for other addresses."""
    if host != LOOPBACK:
        raise ScenarioError(
            f"host must be {LOOPBACK}, got {host!r}: an emulation must not be reachable from other machines"
        )
    return host


def frame(value: Any) -> bytes:
    """Encode a value as a frame."""
    body = _encode(value)
    return _HEAD.pack(len(body)) + body


def to_plain(value: Any) -> list[Any]:
    """Convert a plain value (`gridsim.support.state.pack`) to one that a frame can hold."""
    arrays: list[list[Any]] = []

    def save(array: NDArray[Any]) -> int:
        arrays.append([array.dtype.str, array.shape, array.tobytes()])
        return len(arrays) - 1

    return [pack(value, save), arrays]


def from_plain(content: list[Any]) -> Any:
    """Return the value that `to_plain` converted to `content`."""
    value, arrays = content

    def load(number: int) -> NDArray[Any]:
        dtype, shape, data = arrays[number]
        array: NDArray[Any] = np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
        return array

    return unpack(value, load)


_Challenge = Annotated[bytes, msgspec.Meta(min_length=_CHALLENGE_SIZE, max_length=_CHALLENGE_SIZE)]
_decode_bytes = msgspec.msgpack.Decoder(bytes).decode
_decode_challenge = msgspec.msgpack.Decoder(_Challenge).decode


class Greeting(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """First frame of the opening process: its number, incarnation, and the port on which it listens."""

    proof: bytes
    challenge: _Challenge
    process: int
    incarnation: int
    port: int = 0

    def expected_proof(self, secret: bytes, challenge: bytes) -> bytes:
        """Return the proof of a greeting that answers `challenge`."""
        numbers = self.process, self.incarnation, self.port
        return _proof(secret, "greeting", challenge, self.challenge, *numbers)


def _proof(secret: bytes, *content: Any) -> bytes:
    return hmac.digest(secret, _encode(content), "sha256")


class Introduction:
    """The opening side of a handshake.

    Parameters
    ----------
    secret
        Secret of the run.
    process, incarnation, port
        As in `Greeting`.
    """

    def __init__(self, secret: bytes, process: int, incarnation: int, port: int = 0) -> None:
        self.secret, self.numbers = secret, (process, incarnation, port)
        self._expected = b""

    def greeting(self, body: bytes) -> bytes:
        """Return the frame that answers the body of a challenge; raise ValidationError if it is invalid."""
        challenge, own_challenge = _decode_challenge(body), secrets.token_bytes(_CHALLENGE_SIZE)
        greeting = Greeting(b"", own_challenge, *self.numbers)
        self._expected = _proof(self.secret, "answer", challenge, own_challenge)
        return frame(msgspec.structs.replace(greeting, proof=greeting.expected_proof(self.secret, challenge)))

    def check(self, body: bytes) -> None:
        """Raise ValidationError unless the listening process has proved that it belongs to the run."""
        if not hmac.compare_digest(_decode_bytes(body), self._expected):
            raise msgspec.ValidationError("the proof of an answer must match the run")


class ClosedConnections:
    """Counter of closed connections: a line in the log for the first, then one per `_LOG_EVERY` s at most."""

    def __init__(self) -> None:
        self._count, self._reason, self._next = 0, "", 0.0

    def add(self, reason: str) -> None:
        """Count a connection that was closed for a reason."""
        self._count, self._reason = self._count + 1, reason
        if time.monotonic() >= self._next:
            self.report()

    def report(self) -> None:
        """Write a line on the connections that were closed since the last line, if there are any."""
        if self._count:
            others = f" (and {self._count - 1:,} others before)" if self._count > 1 else ""
            _LOG.warning("connection closed: %s%s", self._reason, others)
            self._count, self._next = 0, time.monotonic() + _LOG_EVERY


class Conversation(asyncio.Protocol):
    """A connection between two processes.

    Parameters
    ----------
    handle
        Function that is called with each frame after the greeting, decoded by `decoder`.
    closed
        Function that is called when the connection is closed, unless a greeting is still missing.
    greet
        Function that is called with the greeting if the other side opens the connection.
    secret
        Secret of the run.
    introduction
        The greeting of this process if it opens the connection; None if it listens.
    pending_greetings
        Connections to the listening process that have not yet sent a greeting, oldest first.
    closed_connections
        Counter of the connections that this process has closed.

    Attributes
    ----------
    known
        Whether the other side has proved that it belongs to the run.
    """

    def __init__(
        self,
        handle: Callable[[Conversation, Any], None],
        closed: Callable[[Conversation], None],
        *,
        decoder: Any,
        secret: bytes,
        closed_connections: ClosedConnections,
        greet: Callable[[Conversation, Greeting], None] | None = None,
        introduction: Introduction | None = None,
        pending_greetings: dict[Conversation, None] | None = None,
    ) -> None:
        self.handle, self.closed, self.decode, self.secret = handle, closed, decoder.decode, secret
        self.greet, self.introduction, self.known = greet, introduction, False
        self.pending_greetings = {} if pending_greetings is None else pending_greetings
        self.closed_connections = closed_connections
        self.challenge, self.has_greeted = b"", False
        #: Result: whether the handshake has succeeded.
        self.handshake: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.came = bytearray()
        self.transport: Any = None
        self.process = self.incarnation = -1
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the handshake of a new connection, after a challenge if this process listens."""
        self.transport = transport
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PATIENCE, self.refuse, f"no greeting within {PATIENCE:g} s")
        if self.introduction is not None:
            return
        self.challenge = secrets.token_bytes(_CHALLENGE_SIZE)
        transport.write(frame(self.challenge))
        self.pending_greetings[self] = None
        if len(self.pending_greetings) > MAX_UNIDENTIFIED:
            loop.call_soon(
                loop.call_soon, self._make_room
            )  # after reading greetings that have already arrived

    def _make_room(self) -> None:
        while len(self.pending_greetings) > MAX_UNIDENTIFIED:
            oldest = next(iter(self.pending_greetings))
            oldest._forget()
            oldest.refuse("too many connections without a greeting")

    def data_received(self, data: bytes) -> None:
        """Read the frames that have arrived, the first of which are those of the handshake."""
        came = self.came
        came += data
        at = 0
        while len(came) - at >= 4 and not self.transport.is_closing():
            (length,) = _HEAD.unpack_from(came, at)
            if length > (LONGEST if self.known else LONGEST_GREETING):
                self.refuse(f"a frame must be shorter, got {length} bytes")
                return
            if len(came) - at - 4 < length:
                break
            body = bytes(memoryview(came)[at + 4 : at + 4 + length])
            at += 4 + length
            try:
                if self.known:
                    self.handle(self, self.decode(body))
                elif self.introduction is None:
                    self._meet(body)
                else:
                    self._introduce(self.introduction, body)
            except msgspec.MsgspecError as error:
                self.refuse(str(error))
                return
        del came[:at]

    def _meet(self, body: bytes) -> None:
        greeting = msgspec.msgpack.decode(body, type=Greeting)
        if not hmac.compare_digest(greeting.proof, greeting.expected_proof(self.secret, self.challenge)):
            raise msgspec.ValidationError("the proof of a greeting must match the run")
        self._forget()
        assert self.greet is not None
        self.transport.write(frame(_proof(self.secret, "answer", self.challenge, greeting.challenge)))
        self.greet(self, greeting)  # it raises an error for an unexpected greeting
        self.process, self.incarnation = greeting.process, greeting.incarnation
        self._end_handshake()

    def _introduce(self, introduction: Introduction, body: bytes) -> None:
        """Answer the challenge of the listening process, or check its proof."""
        if not self.has_greeted:
            self.has_greeted = True
            self.transport.write(introduction.greeting(body))
            return
        introduction.check(body)
        self._forget()
        self._end_handshake()

    def _end_handshake(self) -> None:
        self.known = True
        self.handshake.set_result(True)

    def _forget(self) -> None:
        self.pending_greetings.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refuse(self, reason: str) -> None:
        """Close the connection, and count it in the log."""
        if not self.transport.is_closing():
            self.closed_connections.add(reason)
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection, which has ended."""
        self._forget()
        if self.known:
            self.closed(self)
        else:
            self.handshake.set_result(False)


class Control:
    """Connection of a process to the coordinator, on which a handler may wait for an answer.

    Parameters
    ----------
    port
        Port on which the coordinator listens.
    handle
        Function that is called with each list of commands.
    introduction
        The greeting of this process.

    Attributes
    ----------
    waiting
        Commands that have arrived but have not been handled.
    """

    def __init__(self, port: int, handle: Callable[[list[Any]], None], introduction: Introduction) -> None:
        self.socket = socket.create_connection((LOOPBACK, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.handle, self.waiting = handle, list[Any]()
        self._buffer, self._decode = bytearray(), msgspec.msgpack.Decoder(list[list[Any]]).decode
        self.write(introduction.greeting(self._wait_for_frame()))
        introduction.check(self._wait_for_frame())
        self._loop = asyncio.get_running_loop()
        self._decode_frames()  # commands may have arrived with the answer
        self._loop.call_soon(self._handle_waiting)
        self._loop.add_reader(self.socket, self._receive)

    def write(self, content: bytes) -> None:
        """Send frames, which reach the coordinator even if this process is killed afterwards."""
        self.socket.sendall(content)

    def ask(self, question: bytes) -> Any:
        """Send a frame, and return the coordinator's answer; other commands are handled later."""
        self.write(question)
        while True:
            for k, (name, *values) in enumerate(self.waiting):
                if name == "answer":
                    del self.waiting[k]
                    if self.waiting:
                        self._loop.call_soon(self._handle_waiting)
                    return values[0]
            self._read()

    def _receive(self) -> None:
        with suppress(BlockingIOError):  # a handler that waits for an answer may have read the data
            self._read(socket.MSG_DONTWAIT)
        self._handle_waiting()

    def _handle_waiting(self) -> None:
        commands, self.waiting = self.waiting, []
        if commands:
            self.handle(commands)

    def _read(self, flags: int = 0) -> None:
        """Read frames, waiting for one if necessary."""
        self._receive_data(flags)
        self._decode_frames()

    def _decode_frames(self) -> None:
        while (body := self._next_frame()) is not None:
            self.waiting += self._decode(body)

    def _receive_data(self, flags: int = 0) -> None:
        """Read data, waiting for it if necessary; the process ends if its coordinator has ended."""
        data = self.socket.recv(1 << 18, flags)
        if not data:
            os._exit(0)
        self._buffer += data

    def _next_frame(self) -> bytes | None:
        """Return the body of the next frame that has arrived; None if it is incomplete."""
        came = self._buffer
        if len(came) < 4 or len(came) - 4 < (length := _HEAD.unpack_from(came)[0]):
            return None
        body = bytes(memoryview(came)[4 : 4 + length])
        del came[: 4 + length]
        return body

    def _wait_for_frame(self) -> bytes:
        while (body := self._next_frame()) is None:
            self._receive_data()
        return body


#: Name of the tag, which is not a valid field of a message.
_TAG = "_tag"
#: Type of an int in a message; msgpack supports larger ones.
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Message_(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Common fields of all messages, such as the receiving and the sending node, and the due time (ns).

    The message leaves the sender's machine at `_start` ns, unless its incarnation `_incarnation` ends
    before. If it moves tasks, `_move` is its number and `_tasks` the numbers of the tasks
    (`gridsim.emulation.tasks.Parts`); otherwise they are 0 and empty.
    """

    kind: ClassVar[str]  # each subclass made by `Kind` has its own value
    node: _Int64
    sender: _Int64
    _due: _Int64
    _start: _Int64
    _incarnation: _Int64
    _move: _Int64
    _tasks: tuple[tuple[_Int64, _Int64], ...]


class PackedArray(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """An array in a message."""

    shape: tuple[int, ...]
    data: bytes


class Kind:
    """Wire format of a kind of message: a type with the declared fields, which checks their types.

    Parameters
    ----------
    tag
        Number of the kind on the wire.
    declared
        The declared kind of message.
    """

    def __init__(self, tag: int, declared: MessageKind) -> None:
        self.declared = declared
        fields = dict(zip(declared.fields, declared.types, strict=True))
        self.arrays = {name: kind for name, kind in fields.items() if isinstance(kind, ArrayField)}
        types = {int: _Int64, float: float}
        self.type: Any = msgspec.defstruct(
            f"Message_{tag}",
            [(name, types.get(kind, PackedArray)) for name, kind in fields.items()],
            bases=(Message_,),
            namespace={"kind": declared.name},
            tag=tag,
            tag_field=_TAG,
            array_like=True,
            forbid_unknown_fields=True,
        )

    def pack(
        self,
        node: int,
        message: Any,
        due: int,
        *,
        start: int = 0,
        incarnation: int = 0,
        move: int = 0,
        tasks: Parts = (),
    ) -> Message_:
        """Encode a message to `node`; the other arguments are fields of `Message_`."""
        fields = {name: getattr(message, name) for name in self.declared.fields}
        for name in self.arrays:
            fields[name] = PackedArray(fields[name].shape, fields[name].tobytes())
        packed: Message_ = self.type(
            node=node,
            sender=message.sender,
            _due=due,
            _start=start,
            _incarnation=incarnation,
            _move=move,
            _tasks=tasks,
            **fields,
        )
        return packed

    def unpack(self, packed: Any) -> Any:
        """Decode a received message; raise ValidationError if it is malformed."""
        values = {name: getattr(packed, name) for name in self.declared.fields}
        values |= {name: _array(of, values[name]) for name, of in self.arrays.items()}
        return self.declared.message(packed.sender, values.values())


def _array(kind: ArrayField, packed: PackedArray) -> NDArray[Any]:
    """Decode an array of a message; raise ValidationError if it is malformed."""
    shape, data = packed.shape, packed.data
    if len(shape) not in kind.dimensions or any(item < 0 for item in shape):
        raise msgspec.ValidationError(
            f"the shape of an array must be >= 0 and have {kind.dimensions} dimensions, got {shape}"
        )
    if kind.dtype.itemsize * int(np.prod([*map(int, shape)], dtype=object)) != len(data):
        raise msgspec.ValidationError(
            f"the size of an array must match its shape {shape}, got {len(data)} bytes"
        )
    array: NDArray[Any] = np.frombuffer(data, kind.dtype)
    return array.reshape(shape)


def decoder_of(kinds: Iterable[Kind]) -> Any:
    """Return the decoder of messages between nodes."""
    types = [kind.type for kind in kinds]
    return msgspec.msgpack.Decoder(functools.reduce(operator.or_, types) if types else Message_)


def message_frame(message: Message_) -> bytes:
    """Encode a message as a frame; raises SchedulerError if it is too long."""
    content = frame(message)
    if len(content) > LONGEST_MESSAGE:
        fields = {name: getattr(message, name) for name in message.__struct_fields__}
        arrays = [(len(item.data), name) for name, item in fields.items() if isinstance(item, PackedArray)]
        part = "".join(f", of which the array {name!r} has {size}" for size, name in sorted(arrays)[-1:])
        raise SchedulerError(
            f"node {message.sender}: a message {message.kind!r} in an emulation must have at most "
            f"{LONGEST_MESSAGE} bytes, got {len(content)}{part}"
        )
    return content
