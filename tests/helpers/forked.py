"""Start Python programs quickly, by forking a process that has already imported their modules.

There are two such processes. One has imported the second program: its forks run `main` of the command line. The other
one has imported only `requests` and `yaml`: its forks run any script as `python SCRIPT` does. A fork has its own exit
code, signals and streams, and takes 0.05 s of CPU; a new interpreter takes 0.3 s. Tests that depend on the start of the
interpreter (a missing package, `PYTHON...` variables, another order of sets in each run) or on a terminal must start a
new one.
"""

import atexit
import functools
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path


TESTS = Path(__file__).parents[1]
SCRIPT = TESTS.parent / "scheduler_extras"
PLAIN = "plain"  # the argument of the second process
FORKS = {}  # arguments -> the process that is forked for all commands with them


class Forks:
    """A process that is forked for each command. It ends with its parent, and so do its forks."""

    def __init__(self, *arguments):
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], stdin=theirs, start_new_session=True)
        theirs.close()


class Command:
    """`python scheduler_extras`, or another script, in the background: like `subprocess.Popen`, but without pipes.

    `program`: Python code to run instead, as with `python -c`. It may import the script and change its settings.
    """

    def __init__(self, arguments, stdin, stdout, stderr, script=None, cwd=None, env=None, limits=(), program=None):
        kind = () if script is None else (PLAIN,)
        forks = FORKS[kind] = FORKS.get(kind) or Forks(*kind)
        self.args = [str(script or SCRIPT), *map(str, arguments)]
        self.returncode = self.cpu_seconds = None
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.channel.sendall(json.dumps({
                "argv": self.args, "cwd": str(cwd or os.getcwd()), "environ": dict(os.environ if env is None else env),
                "limits": limits, "program": program}).encode())
            self.channel.shutdown(socket.SHUT_WR)
            streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(forks.control, [b"."], [*streams, theirs.fileno()])
        self.received = b""
        self.pid = self.receive()

    def receive(self):
        """Return the next message of the process: first its pid, then its exit code and CPU seconds."""
        while b"\n" not in self.received:
            data = self.channel.recv(1024)
            assert data, "the process to fork has ended: run tests/helpers/forked.py to see its error"
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)

    def wait(self, timeout=None):
        """Wait until it has ended; return its exit code. Raises TimeoutExpired."""
        if self.returncode is None:
            self.channel.settimeout(timeout)
            try:
                self.returncode, self.cpu_seconds = self.receive()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self.channel.close()
        return self.returncode

    def poll(self):
        """Return its exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number):
        """Send it a signal, if it is running."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self):
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run_to_end(arguments, input="", timeout=120, **options):
    """Run a command to its end; return the result of `subprocess.run`, with the seconds of CPU."""
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


# --- The code below runs in the process that is forked


def serve(control):
    """Fork on each request. In the fork, return the program that it must run, or None for the script."""
    running = {}  # pid -> the socket to which its exit code is sent
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)  # so that select misses no signal that comes just before it
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, *_ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(1024)
            report_exits(running)
        if control not in ready:
            continue
        asked, fds, *_ = socket.recv_fds(control, 1, 4)
        if not asked:
            break
        channel = socket.socket(fileno=fds.pop())
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return take_over(channel, fds)
        running[pid] = channel
        for fd in fds:
            os.close(fd)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    sys.exit()


def report_exits(running):
    """Send the exit code and the CPU seconds of each process that has ended."""
    while running:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            break
        result = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]
        with running.pop(pid) as channel, suppress(OSError):
            channel.sendall(f"{json.dumps(result)}\n".encode())


def take_over(channel, streams):
    """Become the requested process, with its streams, environment and limits."""
    with channel:
        asked = json.loads(channel.makefile().read())
        channel.sendall(f"{os.getpid()}\n".encode())
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
    """Run the script in sys.argv, as `python SCRIPT` does."""
    script = os.path.abspath(sys.argv[0])
    sys.path[0] = script if os.path.isdir(script) else os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


def run_and_end(run):
    """Call run(), and end the process as the interpreter does, but without tearing down its modules.

    The teardown would touch all the memory that is shared with the other forks, and take longer than most commands.
    """
    try:
        code = run()
    except SystemExit as error:
        code = error.code
    threading._shutdown()  # waits for threads that are not daemons
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(code)  # the interpreter reports this in its own way
    if isinstance(code, str):
        sys.exit(code)  # which prints it
    os._exit(code or 0)


if __name__ == "__main__":
    warnings.filterwarnings("error", category=DeprecationWarning, module="scheduler")
    sys.path[0] = str(TESTS)
    if sys.argv[1:] == [PLAIN]:
        import requests  # noqa: F401 (loaded before the first fork)
        import yaml  # noqa: F401
        run = run_script
        sys.path[0] = ""
    else:
        from helpers import everywhere  # noqa: F401 (this loads all modules)
        from scheduler_extras.command_line import main as run

    gc.freeze()  # keeps the memory pages shared between all forks
    program = serve(socket.socket(fileno=os.dup(0)))
    if program:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        run = functools.partial(exec, program, vars(main))
    run_and_end(run)
