"""An extender: an HTTP server that records its requests."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from helpers.faulty import QuietServer


class Service:
    """An HTTP server that records its requests, and sends the answers that the test put into `answers`, by verb."""

    def __init__(self, context=None):
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                verb = self.path.rpartition("/")[2]
                service.asked.append((verb, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                answer = service.answers[verb]
                status, answer = answer() if callable(answer) else answer
                time.sleep(service.delay)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer.encode() if isinstance(answer, str) else json.dumps(answer).encode())

            def log_message(self, *arguments):
                pass

        self.asked, self.answers, self.delay = [], {}, 0
        self.server = QuietServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.server.server_port}/scheduler"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def service():
    service = Service()
    yield service
    service.stop()
