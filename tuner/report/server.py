"""The server of live pages: the last state that it was shown, and its changes as server-sent events.

Whoever shows a report draws it in their own thread; threads that answer a browser hand over finished text, so that watching costs a search
next to nothing. The server only reads: it takes no input but the path of a request. By default it listens to this machine alone, and
then answers only requests that were meant for it (a page of another site that resolves its name to this machine gets nothing).
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from ..error import TunerError
from .numbers import Report
from .page import DrawnSection, assembled, policy_of, sections_of

LOOPBACK = "127.0.0.1"
_MOST_STREAMS = 32
"""Browsers that follow at a time."""
_HEARTBEAT_SECS = 15.0
"""A stream on which nothing happens says so as often, by which a browser that has gone is found."""
_REQUEST_SECS = 30.0
_LOOKING_SECS = 0.1
"""Between two looks whether to stop."""
_GOODBYE_SECS = 1.0
"""How long browsers have to take the last state."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``8080`` (of this machine alone), ``127.0.0.1:8080`` or ``[::1]:8080``.

    >>> parse_address("8080"), parse_address("localhost:0"), parse_address("[::1]:80")
    (('127.0.0.1', 8080), ('localhost', 0), ('::1', 80))

    Raises:
        TunerError: it is something else.
    """
    match = re.fullmatch(r"(?:(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:\[\]]*)):)?(\d{1,5})", text.strip())
    if match is None or int(match[3]) > 65535:
        raise TunerError(
            f"--serve {text!r} is no address; write a port (8080), or a host and a port (127.0.0.1:8080, [::1]:8080)"
        )
    return match[1] or match[2] or LOOPBACK, int(match[3])


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("myhost")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PageServer:
    """Serves one live page; a context, at whose end browsers get the last state and the server stops.

    Args:
        address: as :func:`parse_address` takes it; port 0 takes a free one.

    Raises:
        TunerError: it is no address, or nobody can listen there.
    """

    def __init__(self, address: str) -> None:
        host, port = parse_address(address)
        self._changed = threading.Condition()
        self._title = "loopsmith"
        self._sections: dict[str, DrawnSection] = {}
        self._since: dict[str, int] = {}
        """The state with which each section got its present text."""
        self._state = 0
        self._ended = False
        self._streams = 0
        self.is_private = is_loopback(host)
        kind = type(
            "Listener", (_Listener,), {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET}
        )
        try:
            self._listener: _Listener = kind((host, port), _Handler)
        except OSError as error:
            raise TunerError(
                f"--serve {address}: nobody can listen there: {error.strerror}; take another port, or 0 for a free one"
            ) from error
        except OverflowError as error:
            raise TunerError(f"--serve {address}: {error}") from error
        self._listener.page = self
        found = self._listener.server_address[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{found}/"
        """Where a browser finds the page."""
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(_LOOKING_SECS,), name="report server", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def show(self, report: Report) -> None:
        """Draw a report, and hand browsers what has changed."""
        drawn = sections_of(report)
        with self._changed:
            self._title = report.title
            self._state += 1
            for key, section in drawn.items():
                if self._sections.get(key) != section:
                    self._since[key] = self._state
            self._sections = drawn
            self._changed.notify_all()

    def close(self) -> None:
        """Tell browsers that this was all, and stop; a second time does nothing."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            until = time.monotonic() + _GOODBYE_SECS
            while self._streams and time.monotonic() < until:
                self._changed.wait(0.05)
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    @property
    def followers(self) -> int:
        """How many browsers follow at the moment."""
        return self._streams

    # ---- what threads of browsers ask ---------------------------------------------------------------------------

    def text(self) -> bytes:
        """The page as it is now."""
        with self._changed:
            return assembled(self._title, self._sections, live=True).encode()

    def enter_stream(self) -> bool:
        """Take a place among those who follow; False where all are taken."""
        with self._changed:
            if self._streams >= _MOST_STREAMS or self._ended:
                return False
            self._streams += 1
            return True

    def leave_stream(self) -> None:
        """Give the place back."""
        with self._changed:
            self._streams -= 1
            self._changed.notify_all()

    def next_event(self, seen: int) -> tuple[int, bytes]:
        """Wait for what has changed since a state: the state now, and an event for the browser; -1 behind the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._state > seen or self._ended, _HEARTBEAT_SECS)
            if self._state > seen:
                changed = {key: self._sections[key].html for key, at in self._since.items() if at > seen}
                return self._state, f"event: sections\ndata: {json.dumps(changed)}\n\n".encode()
            if self._ended:
                return -1, b"event: end\ndata: {}\n\n"
            return seen, b": nothing new\n\n"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    page: PageServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    server_version = "loopsmith"
    sys_version = ""
    timeout = _REQUEST_SECS

    def log_message(self, format: str, *args: Any) -> None:
        """Standard error belongs to the search."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._is_meant():
            self.send_error(HTTPStatus.FORBIDDEN, "Not the name of this server")
        elif path == "/":
            self._send_page()
        elif path == "/events":
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _is_meant(self) -> bool:
        """Whether the request names this machine; one that a foreign page sends here by a name of its own does not."""
        named = self.headers.get("Host", "")
        host = re.sub(r":\d+$", "", named).strip("[]")
        return not self.server.page.is_private or is_loopback(host)

    def _head(self, kind: str, size: int | None = None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", f"{policy_of(live=True)}; frame-ancestors 'none'")
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def _send_page(self) -> None:
        content = self.server.page.text()
        self._head("text/html", len(content))
        self.wfile.write(content)

    def _send_events(self) -> None:
        page = self.server.page
        if not page.enter_stream():
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "Too many pages follow already")
            return
        try:
            self._head("text/event-stream")
            state = 0
            while state >= 0:
                state, event = page.next_event(state)
                self.wfile.write(event)
                self.wfile.flush()
        except OSError:  # the browser has gone
            pass
        finally:
            page.leave_stream()
