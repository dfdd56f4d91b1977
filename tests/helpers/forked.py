"""Programs of Python as commands that start at once: a process that has read what they need is forked.

There are two such processes. One has read the second program: the new process runs `main` of its command line. The other
one has read `requests` and `yaml` only: the new process reads any script as `python SCRIPT` does. A new process has an
exit code, signals and streams of its own, and takes 0.05 s of CPU, where a start from nothing takes 0.3 s. What it cannot
show, a test must start for real: what depends on the interpreter's start (a package that is missing, `PYTHON...`
variables, another order of sets each time) and on a terminal.
"""

import gc
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path


TESTS = Path(__file__).parents[1]
SCRIPT = TESTS.parent / "scheduler_extras"
PLAIN = "plain"  # says which of the two processes it is
FORKS = {}  # by what they have read: what all commands of this process come from


class Forks:
    """The process that is forked. It ends, and all that came of it, with the process that started it."""

    def __init__(self, *arguments):
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], stdin=theirs, start_new_session=True)
        theirs.close()


class Command:
    """`python scheduler_extras` as it runs, or another script: what `subprocess.Popen` would return, without pipes.

    `program`, of Python, runs in its place, as by `python -c`: it may import the script and change settings of it.
    """

    def __init__(self, arguments, stdin, stdout, stderr, script=None, cwd=None, env=None, limits=(), program=None):
        kind = () if script is None else (PLAIN,)
        forks = FORKS[kind] = FORKS.get(kind) or Forks(*kind)
        self.args = [str(script or SCRIPT), *map(str, arguments)]
        self.returncode = self.cpu_seconds = None
        self.news, theirs = socket.socketpair()
        with theirs:
            self.news.sendall(json.dumps({
                "argv": self.args, "cwd": str(cwd or os.getcwd()), "environ": dict(os.environ if env is None else env),
                "limits": limits, "program": program}).encode())
            self.news.shutdown(socket.SHUT_WR)
            streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(forks.control, [b"."], [*streams, theirs.fileno()])
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


def run_to_end(arguments, input="", timeout=120, **options):
    """Run a command to its end; return what `subprocess.run` would return, and the seconds of CPU that it took."""
    with ExitStack() as files:
        streams = stdin, *printed = [files.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        stdin.write(input if isinstance(input, bytes) else input.encode())
        stdin.seek(0)
        command = Command(arguments, *streams, **options)
        try:
            command.wait(timeout)
        finally:
            command.kill()
        for each in printed:
            each.seek(0)
        run = subprocess.CompletedProcess(
            command.args, command.returncode, *(each.read().decode(errors="replace") for each in printed))
        run.cpu_seconds = command.cpu_seconds
        return run


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


def run_script():
    """Run the script that the command line names, as `python SCRIPT` does."""
    script = os.path.abspath(sys.argv[0])
    sys.path[0] = script if os.path.isdir(script) else os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    warnings.filterwarnings("error", category=DeprecationWarning, module="scheduler")
    sys.path[0] = str(TESTS)
    if sys.argv[1:] == [PLAIN]:
        import requests  # noqa: F401 (they are loaded before the first fork)
        import yaml  # noqa: F401
        run = run_script
        sys.path[0] = ""
    else:
        from helpers import everywhere  # noqa: F401 (likewise, all modules)
        from scheduler_extras.command_line import main as run

    gc.freeze()  # what is there stays in pages that all processes share
    program = serve(socket.socket(fileno=os.dup(0)))
    if not program:
        sys.exit(run())
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(program, vars(main))
