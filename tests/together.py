"""Threads that begin at one moment."""

import threading


def all_at_once(work, count=8):
    """What each of so many threads got."""
    got, together = [], threading.Barrier(count)

    def beside():
        together.wait()
        got.append(work())

    threads = [threading.Thread(target=beside) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == count
    return got
