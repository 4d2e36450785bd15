"""Work ahead: items made by a second thread while the first uses the ones before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any


def prefetch(items: Iterator[Any], *, depth: int) -> Iterator[Any]:
    """Yield `items` made by a second thread, at most `depth` ahead; an error there is raised here."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> None:
        while not stop.is_set():
            try:
                return ready.put(entry, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stop.is_set():
                    return
            put((False, None))
        except BaseException as error:  # carried over to the thread that reads
            put((False, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            is_item, value = ready.get()
            if not is_item:
                if value is not None:
                    raise value
                return
            yield value
    finally:
        stop.set()
