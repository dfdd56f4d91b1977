"""Settings of the C library: less memory for threads, and an exit without an abort.

live/session.py calls them before it starts threads.
"""

import contextlib
import ctypes


def share_memory_among_threads() -> None:
    """Make all threads share two malloc arenas, which halves the memory of the process.

    By default, glibc gives each thread an arena, and keeps its memory. Other C libraries have no arenas.
    """
    arena_max = -8  # M_ARENA_MAX, see mallopt(3)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(arena_max, 2)


def load_libgcc() -> None:
    """Load libgcc now. Otherwise glibc loads it when Python exits, and aborts if no file can be opened."""
    with contextlib.suppress(OSError):  # other C libraries do not need it
        ctypes.CDLL("libgcc_s.so.1")
