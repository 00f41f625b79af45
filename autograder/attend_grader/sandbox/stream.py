"""A socket as the codec reads and writes it, with a deadline for every wait."""

from __future__ import annotations

import socket
import time
from typing import Protocol


class Timed(Protocol):
    """Whatever has a deadline, by the monotonic clock."""

    @property
    def deadline(self) -> float:
        """When everything has to be done."""
        ...


class Stream:
    """A socket as the codec's stream, every wait bounded by its child's deadline."""

    def __init__(self, connection: socket.socket, child: Timed) -> None:
        self.connection = connection
        self.child = child

    def _bound(self) -> None:
        left = self.child.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)

    def write(self, data: bytes) -> int:
        """Send all of ``data``."""
        self._bound()
        self.connection.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered."""

    def read(self, count: int) -> bytes:
        """Read ``count`` bytes, or fewer where the other side closed."""
        parts: list[bytes] = []
        while count > 0:
            self._bound()
            part = self.connection.recv(min(count, 2**20))
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
