"""Messages between a server and the process of a session, which may have been taken over by what a client has sent."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("google.protobuf")

from runners.rpc.frames import MOST_BYTES, FrameError, receive_message, send_message
from runners.rpc.proto import remote_pb2 as pb


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    first, second = socket.socketpair()
    with first, second:
        yield first, second


def test_messages_come_as_they_were_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    for message in (pb.Answer(), pb.Answer(table="x" * 1000), pb.Answer(nothing=pb.Nothing())):
        send_message(ends[0], message)
        assert receive_message(ends[1], pb.Answer) == message


@pytest.mark.parametrize("size", [MOST_BYTES + 1, 1 << 40, (1 << 64) - 1])
def test_what_says_that_it_is_large_is_not_waited_for(
    ends: tuple[socket.socket, socket.socket], size: int
) -> None:
    ends[0].sendall(struct.pack("<Q", size))
    with pytest.raises(FrameError, match=f"{size} bytes is too large"):
        receive_message(ends[1], pb.Answer, time.monotonic() + 10.0)


def test_what_is_no_message_is_refused(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(struct.pack("<Q", 4) + b"\xff\xff\xff\xff")
    with pytest.raises(FrameError, match="no Answer"):
        receive_message(ends[1], pb.Answer, time.monotonic() + 10.0)


def test_half_a_message_ends_with_the_time_or_with_the_other_side(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ends[0].sendall(struct.pack("<Q", 4) + b"\xff")
    with pytest.raises(TimeoutError):
        receive_message(ends[1], pb.Answer, time.monotonic() + 0.05)
    ends[0].close()
    with pytest.raises(EOFError):
        receive_message(ends[1], pb.Answer, time.monotonic() + 10.0)
