"""`python scheduler_extras` as a command that starts at once: a process that has read it, and what it needs, is forked.

The new process runs `main` of the command line, has an exit code, signals and streams of its own, and takes 0.05 s of CPU, where a
start from nothing takes 0.3 s. What it cannot show, a test must start for real: what
depends on the interpreter's start (a package that is missing, `PYTHON...` variables, another order of sets each time)
and on a terminal.
"""

import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import types
import warnings
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS.parent / "scheduler_extras"


class Forks:
    """The process that is forked. It ends, and all that came of it, with the process that started it."""

    def __init__(self):
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, __file__], stdin=theirs, start_new_session=True)
        theirs.close()


class Command:
    """`python scheduler_extras` as it runs: what `subprocess.Popen` would return, without pipes.

    `program`, of Python, runs in its place, as by `python -c`: it may import the script and change settings of it.
    """

    forks = None  # that all commands of this process come from

    def __init__(self, arguments, stdin, stdout, stderr, cwd=None, env=None, limits=(), program=None):
        Command.forks = Command.forks or Forks()
        self.args = [str(SCRIPT), *map(str, arguments)]
        self.returncode = self.cpu_seconds = None
        self.news, theirs = socket.socketpair()
        with theirs:
            self.news.sendall(json.dumps({
                "argv": self.args, "cwd": str(cwd or os.getcwd()), "environ": dict(os.environ if env is None else env),
                "limits": limits, "program": program}).encode())
            self.news.shutdown(socket.SHUT_WR)
            streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(Command.forks.control, [b"."], [*streams, theirs.fileno()])
        self.heard = b""
        self.pid = self.hear()

    def hear(self):
        """Return what it tells next, which is its pid, and that it has ended."""
        while b"\n" not in self.heard:
            news = self.news.recv(1024)
            assert news, "there is nothing to fork: see what tests/helpers/forked.py says when it is run"
            self.heard += news
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)

    def wait(self, timeout=None):
        """Wait until it has ended; return its exit code. Raises TimeoutExpired."""
        if self.returncode is None:
            self.news.settimeout(timeout)
            try:
                self.returncode, self.cpu_seconds = self.hear()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self.news.close()
        return self.returncode

    def poll(self):
        """Return its exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number):
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """End it."""
        self.send_signal(signal.SIGKILL)


# --- What follows runs in the process that is forked


def serve(control):
    """Fork for whoever asks. In the new process, return the program that it is to run, or None for the script."""
    running = {}  # pid -> whom to tell its end

    def tell_ends(*_):
        with suppress(ChildProcessError):  # there is none any more: another signal came meanwhile, and this was called
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if not pid:
                    break
                told = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
                with running.pop(pid) as news, suppress(OSError):
                    news.sendall(f"{json.dumps(told)}\n".encode())

    signal.signal(signal.SIGCHLD, tell_ends)
    while True:
        asked, fds, *_ = socket.recv_fds(control, 1, 4)
        if not asked:
            break
        news = socket.socket(fileno=fds.pop())
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # an end before it stands in `running`
        pid = os.fork()
        if not pid:
            return take_over(news, fds)
        running[pid] = news
        for fd in fds:
            os.close(fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    sys.exit()


def take_over(news, streams):
    """Become the process that was asked for, with its streams, environment and limits."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    with news:
        asked = json.loads(news.makefile().read())
        news.sendall(f"{os.getpid()}\n".encode())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    for what, most in asked["limits"]:
        resource.setrlimit(what, (most, most))
    sys.argv = asked["argv"]
    return asked["program"]


if __name__ == "__main__":
    warnings.filterwarnings("error", category=DeprecationWarning, module="scheduler")
    sys.path[0] = str(TESTS)
    from helpers import everywhere  # noqa: F401 (all modules are loaded before the first fork)
    from scheduler_extras.command_line import main as run

    gc.freeze()  # what is there stays in pages that all processes share
    program = serve(socket.socket(fileno=os.dup(0)))
    if not program:
        sys.exit(run())
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(program, vars(main))
