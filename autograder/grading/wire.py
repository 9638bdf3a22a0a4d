"""Messages between the grader and student code: length-prefixed frames of JSON and raw array bytes.

Neither side is asked to trust the other. Nothing is unpickled or evaluated; what does not fit the format or its
limits is a ``WireError``.
"""

import dataclasses
import json
import math
import re
import socket
import struct
import time
from typing import Any

import numpy as np

from autograder.case import Case
from autograder.probing import Fault, Outcome

PREFIX = struct.Struct(">IQ")  # bytes of the header, bytes of the arrays
HEADER_LIMIT = 1 << 22
BODY_LIMIT = 1 << 28
ARRAY_LIMIT = 1_000
AXIS_LIMIT = 16
DEPTH_LIMIT = 12
NAME = re.compile(r"[^\W\d]\w{0,99}(\.\w{1,100}){0,10}")
TEXT_LIMIT = 20_000
DTYPES = {
    dtype.str: dtype
    for dtype in map(
        np.dtype, ("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
    )
}
ARRAY = "$array"  # {"$array": 3} in a header stands for the fourth array of the frame


class WireError(Exception):
    """A message that does not follow the format, or exceeds its limits; the text says how."""


class Closed(WireError):
    """The other side is gone."""


class TimedOut(WireError):
    """The other side did not answer in time."""


def encode(message: Any) -> bytes:
    """A message of None, booleans, numbers, strings, NumPy arrays, and lists and dicts of these, as one frame."""
    arrays: list[np.ndarray] = []
    header = json.dumps({"message": _without_arrays(message, arrays), "arrays": [_kind(array) for array in arrays]})
    parts = [header.encode(), *(array.tobytes() for array in arrays)]
    return b"".join([PREFIX.pack(len(parts[0]), sum(map(len, parts[1:]))), *parts])


def _kind(array: np.ndarray) -> list:
    if array.dtype.str not in DTYPES:
        raise WireError(f"An array of dtype {array.dtype} cannot be sent; it must be one of {', '.join(DTYPES)}.")
    return [array.dtype.str, list(array.shape)]


def _without_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    if isinstance(value, list):
        return [_without_arrays(item, arrays) for item in value]
    if isinstance(value, dict):
        if wrong := [key for key in value if not isinstance(key, str) or key == ARRAY]:
            raise WireError(f"{wrong[0]!r} cannot be a key; keys must be strings other than {ARRAY!r}.")
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise WireError(f"A {type(value).__name__} cannot be sent: {value!r:.100}.")


def lengths(prefix: bytes, most: int = BODY_LIMIT) -> tuple[int, int]:
    """Bytes of the header and of the arrays that follow a frame's prefix; the arrays may have at most ``most``."""
    header, body = PREFIX.unpack(prefix)
    if header > HEADER_LIMIT or body > most:
        raise WireError(f"The frame announces {header} + {body} bytes; at most {HEADER_LIMIT} + {most} may come.")
    return header, body


def decode(header: bytes, body: bytes) -> Any:
    """The message of a frame, from its header and its array bytes."""
    try:
        frame = json.loads(header, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise WireError(f"The header is not JSON: {error}") from None
    if not isinstance(frame, dict) or frame.keys() != {"message", "arrays"} or not isinstance(frame["arrays"], list):
        raise WireError("The header must hold a message and a list of arrays.")
    return _with_arrays(frame["message"], _read_arrays(frame["arrays"], body), DEPTH_LIMIT)


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError("A name occurs twice in one object of the header.")
    return found


def _read_arrays(kinds: list, body: bytes) -> list[np.ndarray]:
    if len(kinds) > ARRAY_LIMIT:
        raise WireError(f"{len(kinds)} arrays came; at most {ARRAY_LIMIT} may.")
    arrays, start = [], 0
    for kind in kinds:
        dtype, shape = _checked_kind(kind)
        size = math.prod(shape) * dtype.itemsize
        if size > len(body) - start:
            raise WireError(f"An array of {size} bytes was announced; {len(body) - start} bytes are left.")
        arrays.append(np.frombuffer(body, dtype, math.prod(shape), start).reshape(shape).copy())
        start += size
    if start != len(body):
        raise WireError(f"{len(body) - start} bytes came that belong to no array.")
    return arrays


def _checked_kind(kind: Any) -> tuple[np.dtype, tuple[int, ...]]:
    if not isinstance(kind, list) or len(kind) != 2 or not isinstance(kind[1], list):
        raise WireError("An array must be announced by its dtype and its shape.")
    dtype, shape = kind
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise WireError(f"The dtype {dtype!r:.40} is not one of {', '.join(DTYPES)}.")
    if len(shape) > AXIS_LIMIT or not all(type(size) is int and 0 <= size <= BODY_LIMIT for size in shape):
        raise WireError(f"The shape {shape!r:.100} is not a list of at most {AXIS_LIMIT} sizes from 0 to {BODY_LIMIT}.")
    if math.prod(size for size in shape if size) > BODY_LIMIT:
        raise WireError(f"The shape {shape!r:.100} is too large.")
    return DTYPES[dtype], tuple(shape)


def _with_arrays(value: Any, arrays: list[np.ndarray], depth: int) -> Any:
    if depth < 0:
        raise WireError(f"The message is nested more than {DEPTH_LIMIT} deep.")
    if isinstance(value, list):
        return [_with_arrays(item, arrays, depth - 1) for item in value]
    if isinstance(value, dict):
        if ARRAY in value:
            index = value[ARRAY]
            if len(value) != 1 or type(index) is not int or not 0 <= index < len(arrays):
                raise WireError("A reference to an array must name one that came.")
            return arrays[index]
        return {key: _with_arrays(item, arrays, depth - 1) for key, item in value.items()}
    return value


class Channel:
    """One end of a stream socket that carries frames, each within a time limit."""

    def __init__(self, connection: socket.socket):
        self.connection = connection

    def send(self, message: Any, seconds: float | None = None) -> None:
        """Send a message; raises ``Closed`` or ``TimedOut`` where it cannot be handed over."""
        self.send_frame(encode(message), seconds)

    def send_frame(self, frame: bytes, seconds: float | None = None) -> None:
        """Send a message that ``encode`` made a frame of."""
        self.connection.settimeout(seconds)
        try:
            self.connection.sendall(frame)
        except TimeoutError:
            raise TimedOut(f"The message was not taken within {seconds:g} s.") from None
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self, seconds: float | None = None, most: int = BODY_LIMIT) -> Any:
        """The next message, with at most ``most`` bytes of arrays.

        ``seconds`` is for the whole of it, so that dripping bytes gain nothing.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        header, body = lengths(self._read(PREFIX.size, deadline), most)
        return decode(self._read(header, deadline), self._read(body, deadline))

    def _read(self, count: int, deadline: float | None) -> bytes:
        pieces = bytearray()
        while len(pieces) < count:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimedOut("The message did not come in time.")
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(min(count - len(pieces), 1 << 20))
            except TimeoutError:
                raise TimedOut("The message did not come in time.") from None
            except OSError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed("The other side is gone.")
            pieces += piece
        return bytes(pieces)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *error) -> None:
        self.close()


def channels() -> tuple[Channel, socket.socket]:
    """A channel, and the socket of its other end to be handed to another process."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs


def pack_case(case: Case) -> dict:
    """A case as a message."""
    packed = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    for name in ("inputs", "options", "probe"):
        packed[name] = dict(packed[name])
    for name in ("gradient", "watch"):
        packed[name] = list(packed[name])
    return packed


def frame_of(case: Case) -> bytes:
    """A case as the frame that carries it."""
    return encode(pack_case(case))


def unpack_case(message: Any) -> Case:
    """The case that ``pack_case`` packed."""
    return Case(**message | {name: tuple(message[name]) for name in ("gradient", "watch")})


def pack_outcome(outcome: Outcome) -> dict:
    """An outcome as a message; what the kernel printed stays behind."""
    fault = outcome.fault
    return {
        "arrays": dict(outcome.arrays),
        "fault": dataclasses.asdict(fault) if fault else None,
        "watched": list(outcome.watched),
    }


def unpack_outcome(message: Any) -> Outcome:
    """The outcome in a message from student code, of which nothing is believed but its form.

    Raises
    ------
    WireError
        If the message is not an outcome.
    """
    if not isinstance(message, dict) or message.keys() != {"arrays", "fault", "watched"}:
        raise WireError("An outcome must hold arrays, a fault and the watched functions that were called.")
    arrays, watched = message["arrays"], message["watched"]
    if not isinstance(arrays, dict) or not all(map(_is_name, arrays)):
        raise WireError("An outcome's arrays must go by names.")
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise WireError("An outcome may hold nothing but arrays.")
    if not isinstance(watched, list) or len(watched) > 100 or not all(map(_is_name, watched)):
        raise WireError("The watched functions must be a list of names.")
    return Outcome(arrays, None if message["fault"] is None else _unpack_fault(message["fault"]), tuple(watched))


def _unpack_fault(message: Any) -> Fault:
    if not isinstance(message, dict) or message.keys() != {"kind", "text", "exception", "line", "details"}:
        raise WireError("A fault must hold its kind, text, exception, line and details.")
    if message["kind"] not in ("raised", "unusable"):
        raise WireError(f"A kernel cannot report a fault of the kind {message['kind']!r:.40}.")
    if not all(isinstance(message[name], str) and len(message[name]) <= TEXT_LIMIT for name in _TEXTS):
        raise WireError(f"The texts of a fault must be strings of at most {TEXT_LIMIT} characters.")
    if message["line"] is not None and not (type(message["line"]) is int and 0 < message["line"] < 1_000_000):
        raise WireError("The line of a fault must be a line number.")
    return Fault(**message)


_TEXTS = ("text", "exception", "details")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None
