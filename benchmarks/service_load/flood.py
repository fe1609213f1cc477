"""Strangers without a key who hold many connections: a process of its own, since it would
otherwise keep the client that measures waiting. `python -m .. PORT KIND CONNECTIONS` writes a line
once all have asked, and goes on until it is ended."""

from __future__ import annotations

import asyncio
import os
import sys

_LOGIN = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\nk"
)
_PROBE = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
# A login of which one byte comes, begun again once it is given up; a probe after each answer.
KINDS = {"slow_logins": (_LOGIN, 1024), "probes": (_PROBE, 600)}


async def _stay(port: int, request: bytes, begun: asyncio.Semaphore) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            begun.release()
            while await reader.read(65_536):
                if request is _PROBE:
                    writer.write(request)
            writer.close()
        except OSError:
            await asyncio.sleep(0.1)


async def _flood(port: int, request: bytes, connections: int) -> None:
    begun = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_stay(port, request, begun))
        for _ in range(connections):
            await begun.acquire()
        print("all have asked", flush=True)


if __name__ == "__main__":
    os.setpriority(os.PRIO_PROCESS, 0, 10)  # their own machines would compute this
    asyncio.run(_flood(int(sys.argv[1]), *KINDS[sys.argv[2]]))
