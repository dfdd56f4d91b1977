"""Settings of the C library: less unused memory, and an exit without an abort.

live/session.py calls them before it starts threads.
"""

import contextlib
import ctypes


# Parameters of mallopt(3).
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8


def limit_unused_memory() -> None:
    """Limit what malloc keeps unused, which halves the memory of the process.

    By default, glibc gives each thread an arena, and keeps its memory. Once a large block was freed, such as
    the buffer of a response, it also keeps blocks of that size. Other C libraries do neither.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 2)
        libc.mallopt(M_MMAP_THRESHOLD, 2**17)  # glibc's own threshold, which no longer grows


def load_libgcc() -> None:
    """Load libgcc now. Otherwise glibc loads it when Python exits, and aborts if no file can be opened."""
    with contextlib.suppress(OSError):  # other C libraries do not need it
        ctypes.CDLL("libgcc_s.so.1")
