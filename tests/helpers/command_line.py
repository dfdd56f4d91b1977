"""Helpers for the tests of the command line."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from helpers.extras import ROOT, run_scheduler
from helpers.faulty import QuietServer


DEMO = ROOT / "tests" / "demo.yaml"


def pictured(*things, arguments=(), **options):
    """Schedule manifests; return the table of nodes, {node: (the other cells of its row, its pods)}, and the lines below it."""
    run = run_scheduler("--cluster", "-", *arguments, input=json.dumps({"kind": "List", "items": things}), **options)
    assert run.returncode == 0, run
    _, _, picture = run.stdout.partition("NODE ")
    picture, _, below = picture.partition("\n\n")
    name, nodes = "", {}
    for line in picture.splitlines()[1:]:
        if line.startswith("    "):
            nodes[name] = (*nodes[name], *line.strip().split(", "))
        else:
            name, *cells = re.split("  +", line)
            nodes[name] = (cells,)
    return {name: (cells, pods) for name, (cells, *pods) in nodes.items()}, below.splitlines()


WITH_CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


@pytest.fixture
def answering():
    """A function that starts an HTTP server with one answer for all requests, and returns its URL."""
    servers = []

    def start(status, body, **headers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments):
                pass

        servers.append(QuietServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


RULE = """from scheduler import predicate

@predicate("{}")
def rule(pod, node):
    {}
"""
