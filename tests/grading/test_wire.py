"""The wire carries cases and outcomes unchanged, and refuses everything else."""

import json
import socket
import threading

import numpy as np
import pytest

from autograder import catalog
from autograder.case import Case
from autograder.grading import wire
from autograder.grading.wire import Channel, Closed, TimedOut, WireError, decode, encode
from autograder.judging import draw_cases
from autograder.probing import Fault, Outcome


def round_trip(message):
    frame = encode(message)
    header, body = wire.lengths(frame[: wire.PREFIX.size])
    rest = frame[wire.PREFIX.size :]
    assert len(rest) == header + body
    return decode(rest[:header], rest[header:])


def equal(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and (one == other or one != one)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.zeros((0, 4), np.float16),
        np.array(True),
        np.array([np.nan, np.inf, -0.0], np.float32),
        np.arange(24, dtype=np.int64).reshape(2, 3, 4)[:, ::2],
        np.array([1 + 2j]),
    ],
)
def test_arrays_come_back_as_they_were(array):
    assert equal(round_trip({"a": [array, None]}), {"a": [array, None]})


def test_plain_values_come_back_as_they_were():
    message = {"none": None, "flags": [True, False], "numbers": [1, -2.5, float("inf"), 10**30], "text": "注意 \ud83d"}
    assert equal(round_trip(message), message)


@pytest.mark.parametrize("name", catalog.kernels())
def test_every_case_of_the_course_can_be_sent(name):
    for _, case in draw_cases(name, 3) + draw_cases(name):
        sent = wire.unpack_case(round_trip(wire.pack_case(case)))
        assert equal(vars(sent), vars(case))


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {"$array": 0}, np.float64(1.0), {1, 2}, b"x", np.array([object()])])
def test_what_cannot_be_carried_is_not_sent(value):
    with pytest.raises(WireError, match=r"cannot be"):
        encode({"value": value})


def frame(message, arrays=(), body=b""):
    return json.dumps({"message": message, "arrays": list(arrays)}).encode(), body


HOSTILE = {
    "negative size": frame(None, [["<f8", [-1]]]),
    "huge size": frame(None, [["<f8", [10**18]]]),
    "huge product": frame(None, [["<f8", [2**20, 2**20, 2**20]]]),
    "huge product with a zero": frame(None, [["<f8", [0, 2**28, 2**28, 2**28]]]),
    "boolean size": frame(None, [["<f8", [True]]], b"12345678"),
    "fractional size": frame(None, [["<f8", [1.0]]], b"12345678"),
    "text as size": frame(None, [["<f8", ["1"]]], b"12345678"),
    "too many axes": frame(None, [["<f8", [1] * 17]], b"12345678"),
    "object dtype": frame(None, [["|O", [1]]], b"12345678"),
    "structured dtype": frame(None, [[[["a", "<f8"]], [1]]], b"12345678"),
    "void dtype": frame(None, [["|V8", [1]]], b"12345678"),
    "text dtype": frame(None, [["<U2", [1]]], b"12345678"),
    "too few bytes": frame(None, [["<f8", [2]]], b"12345678"),
    "too many bytes": frame(None, [["<f8", [1]]], b"123456789"),
    "bytes without an array": frame(None, [], b"1"),
    "too many arrays": frame(None, [["?", [0]]] * (wire.ARRAY_LIMIT + 1)),
    "array that did not come": frame({"$array": 0}),
    "array before the first": frame({"$array": -1}, [["?", [0]]]),
    "array of a boolean number": frame({"$array": False}, [["?", [0]]]),
    "array with company": frame({"$array": 0, "x": 1}, [["?", [0]]]),
    "array without shape": frame(None, [["<f8"]]),
    "arrays that are no list": (b'{"message": null, "arrays": {}}', b""),
    "duplicate name": (b'{"message": {"a": 1, "a": 2}, "arrays": []}', b""),
    "something more": (b'{"message": 1, "arrays": [], "x": 1}', b""),
    "no object": (b"[1]", b""),
    "no JSON": (b"\x80\x04K\x01.", b""),
    "not UTF-8": (b'{"message": "\xff", "arrays": []}', b""),
    "deep": (b'{"message": ' + b"[" * 10_000 + b"]" * 10_000 + b', "arrays": []}', b""),
    "a little too deep": frame(json.loads("[" * 14 + "]" * 14)),
    "endless number": (b'{"message": ' + b"9" * 10_000 + b', "arrays": []}', b""),
    "empty": (b"", b""),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_frames_are_refused(hostile):
    with pytest.raises(WireError):
        decode(*hostile)


@pytest.mark.parametrize("sizes", [(wire.HEADER_LIMIT + 1, 0), (0, wire.BODY_LIMIT + 1), (2**32 - 1, 2**64 - 1)])
def test_a_frame_that_announces_too_much_is_refused_before_it_is_read(sizes):
    with pytest.raises(WireError, match="announces"):
        wire.lengths(wire.PREFIX.pack(*sizes))


def test_random_bytes_are_refused():
    random = np.random.default_rng(0)
    good = bytearray(encode({"arrays": {"a": np.arange(3.0)}, "fault": None, "watched": []}))
    for _ in range(300):
        broken = bytearray(good)
        for place in random.integers(0, len(broken), 3):
            broken[place] = random.integers(256)
        try:
            header, body = wire.lengths(bytes(broken[: wire.PREFIX.size]))
            rest = bytes(broken[wire.PREFIX.size :])
            wire.unpack_outcome(decode(rest[:header], rest[header : header + body]))
        except WireError:
            continue  # anything else that is raised fails the test


OUTCOME = {"arrays": {"a": np.zeros(2)}, "fault": None, "watched": []}
FAULT = {"kind": "raised", "text": "t", "exception": "E", "line": 3, "details": ""}


def test_an_outcome_comes_back_without_what_was_printed():
    outcome = Outcome(
        {"a": np.ones(3)}, Fault("raised", "ValueError: x", "ValueError", 2, "…"), ("torch.softmax",), "secret"
    )
    back = wire.unpack_outcome(round_trip(wire.pack_outcome(outcome)))
    assert back.fault == outcome.fault
    assert back.watched == outcome.watched
    assert equal(dict(back.arrays), dict(outcome.arrays))
    assert back.printed == ""


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": []},
        {"arrays": {"a": 1.0}},
        {"arrays": {"a": [np.zeros(2)]}},
        {"arrays": {"": np.zeros(2)}},
        {"arrays": {"<script>": np.zeros(2)}},
        {"watched": "torch"},
        {"watched": [1]},
        {"watched": ["a"] * 101},
        {"fault": 1},
        {"fault": FAULT | {"kind": "stopped"}},
        {"fault": FAULT | {"text": 1}},
        {"fault": FAULT | {"text": "x" * 30_000}},
        {"fault": FAULT | {"line": -1}},
        {"fault": FAULT | {"line": True}},
        {"fault": {"kind": "raised"}},
        {"printed": "x"},
    ],
)
def test_what_is_not_an_outcome_is_refused(change):
    with pytest.raises(WireError):
        wire.unpack_outcome(OUTCOME | change)


def test_a_channel_carries_messages_larger_than_the_pipe():
    channel, theirs = wire.channels()
    big = {"a": np.random.default_rng(0).normal(size=500_000)}
    with channel, theirs:
        sender = threading.Thread(target=Channel(theirs).send, args=(big,))
        sender.start()
        assert equal(channel.receive(10), big)
        sender.join()


def test_a_truncated_message_ends_in_closed():
    channel, theirs = wire.channels()
    with channel:
        theirs.sendall(encode({"a": np.zeros(9)})[:-1])
        theirs.close()
        with pytest.raises(Closed):
            channel.receive(10)


def test_dripping_bytes_do_not_extend_the_time():
    channel, theirs = wire.channels()
    stop = threading.Event()

    def drip():
        for byte in encode({"a": np.zeros(1_000)}):
            if stop.wait(0.02):
                return
            theirs.sendall(bytes([byte]))

    with channel, theirs:
        dripping = threading.Thread(target=drip)
        dripping.start()
        with pytest.raises(TimedOut):
            channel.receive(0.2)
        stop.set()
        dripping.join()


def test_a_message_that_nobody_takes_times_out():
    channel, theirs = wire.channels()
    with channel, theirs, pytest.raises(TimedOut):
        channel.send({"a": np.zeros(1_000_000)}, 0.1)


def test_sending_to_nobody_is_closed():
    ours, theirs = socket.socketpair()
    theirs.close()
    with Channel(ours) as channel, pytest.raises(Closed):
        channel.send({"a": 1}, 1)


def test_a_case_has_every_field_on_the_wire():
    case = Case(
        "t", {"x": np.ones(2)}, {"dim": 1}, "float32", True, ("x",), probe={"steps": 3}, watch=("torch.softmax",)
    )
    assert equal(vars(wire.unpack_case(round_trip(wire.pack_case(case)))), vars(case))
