"""Servers that misbehave on purpose, on loopback: a proxy that injects faults, an API server in memory, an extender."""

import functools
import http.client
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


KINDS = {  # kinds of requests: (method, pattern of the path)
    "lease": ("", "/leases"), "binding": ("POST", "/binding$"), "event": ("POST", "/events$"),
    "status": ("PATCH", "/status$"), "delete": ("DELETE", ""), "watch": ("GET", "[?&]watch=true"), "list": ("GET", ""), "other": ("", "")}


def kind_of(method, path):
    """Return the kind of a request."""
    plain = path if "watch=true" in path else urlsplit(path).path
    return next(kind for kind, (verb, part) in KINDS.items() if verb in ("", method) and re.search(part, plain))


def failure(code, reason="InternalError", message="injected"):
    """Return a Status object with which the API server reports a failure."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
            "message": message, "code": code}


# A fault is a function of a request. It may carry out the request, and may answer it.


def answering(code, before=True, **headers):
    """Return a fault: the answer is this status, before the request is carried out or after."""
    def fault(request):
        if not before:
            request.carry_out()
        request.answer(code, failure(code), headers)
    return fault


def reset_before(request):
    """The connection breaks, and the request is lost."""
    request.reset()


def reset_after(request):
    """The connection breaks, and the answer is lost."""
    request.carry_out()
    request.reset()


def cut(request):
    """Half of the answer arrives."""
    head, body = request.message(*request.carry_out())
    request.send((head + body)[:len(head) + len(body) // 2])
    request.reset()


def garbage(request):
    """The answer is not JSON."""
    request.carry_out()
    request.answer(200, b'\x00\xff\x1b]0;garbage\x07{"items": [' + b"\xc3\x28" * 20)


def wrong(request):
    """The answer is JSON, but not of the requested kind."""
    request.carry_out()
    request.answer(200, {"items": 7, "metadata": [], "spec": "none"})


def late(request):
    """The answer comes after two seconds."""
    code, content, headers = request.carry_out()
    request.pause(2)
    request.answer(code, content, headers)


def slow(request):
    """The answer comes in pieces, over a second."""
    message = b"".join(request.message(*request.carry_out()))
    step = len(message) // 10 + 1
    for start in range(0, len(message), step):
        request.send(message[start:start + step])
        request.pause(0.1)


def lost(request):
    """The request is carried out; five seconds later, the connection breaks without an answer."""
    request.carry_out()
    request.pause(5)
    request.reset()


def hang(request):
    """No answer comes."""
    request.pause(3600)
    request.reset()


def trickle(request):
    """The answer comes at one byte a second."""
    for byte in b"".join(request.message(*request.carry_out())):
        request.send(bytes([byte]))
        request.pause(1)


FAULTS = {
    "500 before": answering(500), "500 after": answering(500, before=False), "503": answering(503),
    "429": answering(429, Retry_After="1"), "reset before": reset_before, "reset after": reset_after, "cut": cut,
    "garbage": garbage, "wrong": wrong, "late": late, "slow": slow, "lost": lost, "hang": hang, "trickle": trickle}
AT_RANDOM = [name for name in FAULTS if name not in ("hang", "trickle")]  # these two have their own scenarios


@dataclass
class Choice:
    """A fault for some requests only: `of` is a function of the RecordedRequest that returns a fault or None."""

    of: callable


@dataclass
class RecordedRequest:
    """A request that a server has received."""

    at: float  # monotonic seconds
    kind: str
    method: str
    path: str
    body: bytes = field(repr=False)
    fault: str = None
    status: int = None  # of the answer, if the request was carried out
    done: float = None  # the time at which it was carried out

    @property
    def json(self):
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def pod(self):
        """The pod of a Binding: namespace/name."""
        return "/".join(map(unquote, re.search("/namespaces/([^/]*)/pods/([^/]*)", self.path).groups()))


class QuietServer(ThreadingHTTPServer):
    """An HTTP server that ignores clients that disconnect before they get their answer."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ManyAtOnce(QuietServer):
    """An HTTP server that accepts 64 connections at once; with a shorter queue, clients would retry after 1, 3, 7 s."""

    request_queue_size, daemon_threads, block_on_close = 128, True, False


class Server:
    """An HTTP server on a free loopback port. Subclasses answer requests in `carry_out`.

    `faults`: {a kind of request, or "" for any: a fault, the name of one, or a Choice}.
    """

    def __init__(self, host="127.0.0.1"):
        self.faults, self.delays, self.injected, self.asked = {}, {}, Counter(), []
        self.closing, self.lock = threading.Event(), threading.RLock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm, upstream = "HTTP/1.1", True, None

            def log_message(self, *arguments):
                pass

            def handle(self):
                try:
                    super().handle()
                except OSError:  # the client has disconnected
                    self.close_connection = True

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = RecordedRequest(time.monotonic(), kind_of(self.command, self.path), self.command, self.path, body)
                owner.asked.append(asked)
                if owner.closing.is_set():  # a connection that was idle when the server stopped
                    self.close_connection = True
                    return
                owner.handle(Request(self, owner, asked))

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        self.http = ManyAtOnce((host, 0), Handler)
        self.port = self.http.server_port
        self.url = f"http://{host}:{self.port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle(self, request):
        """Answer a request, or apply a fault to it."""
        asked = request.asked
        request.pause(self.delays.get(asked.kind, 0))
        fault = self.faults.get(asked.kind, self.faults.get(""))
        if isinstance(fault, Choice):
            fault = fault.of(asked)
        if isinstance(fault, str):
            asked.fault, fault = fault, FAULTS[fault]
        elif fault:
            asked.fault = fault.__name__
        if fault:
            with self.lock:
                self.injected[asked.fault] += 1
            fault(request)
        else:
            request.answer(*request.carry_out())

    def sent(self, kind):
        """Return the requests of a kind that have been received so far."""
        return [asked for asked in list(self.asked) if asked.kind == kind]

    def stop(self):
        """Stop, and break all connections."""
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()


class Request:
    """A request to a server, and the connection for the answer."""

    def __init__(self, handler, server, asked):
        self.handler, self.server, self.asked = handler, server, asked

    def carry_out(self):
        """Carry out the request; return the status, the content and the headers of the answer."""
        code, content, headers = self.server.carry_out(self)
        self.asked.status, self.asked.done = code, time.monotonic()
        return code, content, headers

    def message(self, code, content, headers=None):
        """Return the head and the body of an answer."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        lines = {"Content-Type": "application/json", "Content-Length": len(body)} | {
            name.replace("_", "-"): value for name, value in (headers or {}).items()}
        reason = http.client.responses.get(code, "")
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"HTTP/1.1 {code} {reason}\r\n{head}\r\n".encode(), body

    def answer(self, code, content, headers=None):
        """Send an answer."""
        self.send(b"".join(self.message(code, content, headers)))

    def send(self, content):
        """Send a part of the answer."""
        self.handler.wfile.write(content)

    def begin_stream(self):
        """Send the head of a chunked answer."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def send_chunk(self, content=b""):
        """Send a chunk of a chunked answer; an empty chunk ends it."""
        self.send(b"%x\r\n%b\r\n" % (len(content), content))

    def reset(self):
        """Break the connection."""
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.handler.close_connection = True

    def pause(self, seconds):
        """Wait. Raise ConnectionAbortedError if the server stops or the client disconnects meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self.server.closing.wait(min(left, 0.2)):
                raise ConnectionAbortedError
            if seconds > 1:
                self.handler.connection.setblocking(False)
                try:
                    gone = self.handler.connection.recv(1, socket.MSG_PEEK) == b""
                except BlockingIOError:
                    gone = False
                finally:
                    self.handler.connection.setblocking(True)
                if gone:
                    raise ConnectionAbortedError


class FaultProxy(Server):
    """A proxy in front of kubectl proxy that injects random faults. The seed and the request determine the fault.

    `rates`: {kind of request, or "" for any: share}. `at_random`: the names of the faults to choose from.
    """

    def __init__(self, upstream, seed=0):
        super().__init__()
        self.upstream, self.seed, self.rates, self.at_random, self.times = upstream, seed, {}, AT_RANDOM, Counter()
        self.faults[""] = Choice(self.throw)

    def throw(self, asked):
        """Return the fault for a request, or None. It depends only on the seed and the request."""
        rate = self.rates.get(asked.kind, self.rates.get("", 0))
        if not rate:
            return None
        path = asked.path.partition("?")[0]
        with self.lock:
            self.times[asked.method, path] += 1
            dice = random.Random(f"{self.seed} {asked.method} {path} {self.times[asked.method, path]}")
        return dice.choice(self.at_random) if dice.random() < rate else None

    def handle(self, request):
        """Answer a request, or apply a fault to it. A stream is passed on; a fault cuts it off."""
        if request.asked.kind != "watch" or not isinstance(self.faults[""], Choice):
            super().handle(request)
            return
        fault = self.throw(request.asked)
        lines = -1  # the number of lines to pass on; -1: all
        if fault:
            with self.lock:
                lines = random.Random(f"{self.seed} {self.times}").randrange(20)
                self.injected["cut off"] += 1
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=120)
        try:
            upstream.request("GET", request.asked.path)
            answer = upstream.getresponse()
            if answer.status != 200:
                request.answer(answer.status, answer.read())
                return
            request.begin_stream()
            while lines != 0 and not self.closing.is_set() and (line := answer.readline()):
                request.send_chunk(line)
                lines -= 1
            request.reset() if lines == 0 else request.send_chunk()
        except (OSError, http.client.HTTPException) as error:
            request.reset()
            raise ConnectionAbortedError from error
        finally:
            upstream.close()

    def carry_out(self, request):
        """Pass the request on. If no answer comes, break the connection."""
        handler, asked = request.handler, request.asked
        handler.upstream = handler.upstream or http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=120)
        try:
            handler.upstream.request(asked.method, asked.path, asked.body or None, {
                "Content-Type": handler.headers.get("Content-Type", "application/json")})
            answer = handler.upstream.getresponse()
            headers = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return answer.status, answer.read(), headers
        except (OSError, http.client.HTTPException) as error:
            handler.upstream = None
            request.reset()
            raise ConnectionAbortedError from error


def selects(selector, thing):
    """Return whether a field selector, such as spec.nodeName!=,metadata.name=p, selects an object."""
    for path, differs, value in re.findall("([^,=!]+)(!?)=([^,]*)", selector):
        actual = functools.reduce(lambda part, key: part.get(key) or {}, path.split("."), thing) or ""
        if (actual == value) == bool(differs):
            return False
    return True


class ApiServer(Server):
    """An API server in memory with pods, nodes and a Lease. `asked`: the requests that it has received."""

    def __init__(self, *objects):
        super().__init__()
        self.pods, self.nodes, self.lease, self.version = {}, {}, None, 0
        self.deleted = []  # the deleted pods, each with the version of its deletion
        self.read = {}  # cache of `text`: (uid, version, field selector) -> JSON
        self.extra = []  # functions of (resource, field selector) that return more objects for lists
        self.create(*objects)

    def create(self, *objects):
        """Create pods and nodes. An object that replaces one of the same name has a new uid."""
        with self.lock:
            for thing in objects:
                self.version += 1
                thing["metadata"] |= {"uid": f"uid-{self.version}", "resourceVersion": str(self.version)}
                if thing["kind"] == "Pod":
                    self.pods[thing["metadata"].get("namespace", "default"), thing["metadata"]["name"]] = thing
                else:
                    self.nodes[thing["metadata"]["name"]] = thing

    def delete(self, name):
        """Delete a pod of the namespace default, if it exists."""
        with self.lock:
            pod = self.pods.pop(("default", name), None)
            if pod:
                self.version += 1
                self.deleted.append(pod | {"metadata": pod["metadata"] | {"resourceVersion": str(self.version)}})

    def handle(self, request):
        """Answer a request, or apply a fault to it. A watch is a stream of the changes, until its timeout."""
        is_faulty = not {"", "list", "watch"}.isdisjoint(name for name, fault in self.faults.items() if fault)
        if request.asked.kind != "watch" or is_faulty:
            super().handle(request)
            return
        url = urlsplit(request.asked.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        resource = url.path.rpartition("/")[2]
        until = time.monotonic() + float(query["timeoutSeconds"])
        since = int(query.get("resourceVersion") or 0)
        request.begin_stream()
        known = {name: text for name, text in self.texts(resource, query.get("fieldSelector", "")).items()
                 if int(json.loads(text)["metadata"]["resourceVersion"]) <= since}
        with self.lock:  # deletions since the list or the last stream are sent, too
            known |= {pod["metadata"]["uid"]: json.dumps(pod) for pod in self.deleted
                      if resource == "pods" and int(pod["metadata"]["resourceVersion"]) > since}
        while time.monotonic() < until and not self.closing.is_set():
            there = self.texts(resource, query.get("fieldSelector", ""))
            events = [("DELETED", text) for name, text in known.items() if name not in there]
            events += [("MODIFIED" if name in known else "ADDED", text) for name, text in there.items()
                       if known.get(name) != text]
            for what, text in events:
                request.send_chunk(f'{{"type": "{what}", "object": {text}}}\n'.encode())
            known = there
            time.sleep(0.03)
        request.send_chunk()

    def texts(self, resource, selector):
        """Return the objects of a resource that a selector selects, as JSON, by their uids."""
        with self.lock:
            things = {"pods": self.pods, "nodes": self.nodes}.get(resource, {})
            texts = {thing["metadata"]["uid"]: self.text(thing, selector) for thing in things.values()}
            return {uid: text for uid, text in texts.items() if text}

    def text(self, thing, selector):
        """Return an object as JSON, or "" if the selector does not select it. Cached, because each stream calls it 30 times a second."""
        key = thing["metadata"]["uid"], thing["metadata"]["resourceVersion"], selector
        if key not in self.read:
            self.read[key] = json.dumps(thing) if selects(selector, thing) else ""
        return self.read[key]

    def placements(self):
        """Return the assigned pods: namespace/name -> node."""
        with self.lock:
            return {"/".join(key): pod["spec"]["nodeName"] for key, pod in self.pods.items()
                    if "nodeName" in pod["spec"]}

    def carry_out(self, request):
        """Answer a GET, carry out a Binding or a write of the Lease, and accept all other writes."""
        asked, path = request.asked, urlsplit(request.asked.path)
        with self.lock:
            if asked.kind == "lease":
                return self.answer_lease(asked)
            if asked.kind == "binding":
                return self.answer_binding(asked)
            if asked.method != "GET":
                return 201, {"kind": "Status"}, None
            *_, what, name = ["", *path.path.split("/")]
            if what == "pods":
                pod = self.pods.get((path.path.split("/")[4], name))
                return (200, pod, None) if pod else (404, failure(404, "NotFound"), None)
            selector = parse_qs(path.query).get("fieldSelector", [""])[0]
            items = {"pods": self.pods, "nodes": self.nodes}.get(name, {}).values()
            items = [thing for thing in items if selects(selector, thing)]
            items += [thing for extra in self.extra for thing in extra(name, selector)]
            return 200, {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}, None

    def answer_binding(self, asked):
        """Bind a pod that has no node yet. Its uid must match the Binding's, as in API servers since 1.27."""
        pod = self.pods.get(tuple(asked.pod.split("/")))
        is_another = pod and asked.json["metadata"].get("uid") not in (None, pod["metadata"]["uid"])
        if pod is None or is_another or "nodeName" in pod["spec"]:
            code = 404 if pod is None else 409
            return code, failure(code, "Conflict" if pod else "NotFound"), None
        self.version += 1
        pod["spec"]["nodeName"] = asked.json["target"]["name"]
        pod["metadata"]["resourceVersion"] = str(self.version)
        return 201, {"kind": "Status", "status": "Success"}, None

    def answer_lease(self, asked):
        """Read or write the Lease; a write with an old version is a conflict."""
        if asked.method == "GET":
            return (200, self.lease, None) if self.lease else (404, failure(404, "NotFound"), None)
        body, seen = asked.json, self.lease and self.lease["metadata"]["resourceVersion"]
        if (asked.method == "POST" and self.lease) or body["metadata"].get("resourceVersion") != seen:
            return 409, failure(409, "Conflict"), None
        self.version += 1
        self.lease = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.version)}}
        return 200, self.lease, None


class ExtenderServer(Server):
    """An extender. `answers`: verb -> (status, content), or a function of the request that returns this."""

    def __init__(self, host="127.0.0.1", **answers):
        super().__init__(host)
        self.answers = answers

    def carry_out(self, request):
        """Return the answer for the verb of the request."""
        answer = self.answers[request.asked.path.rpartition("/")[2]]
        return (*(answer(request) if callable(answer) else answer), None)[:3]
