"""A stand-in for an OpenAI-like completions server, run as a process by tests.

Completion i of a request is `text-<seed + i>`. Faults are taken one a completions request from
`--faults`, then all is well; `429/3` asks for three seconds' rest. It starts a child, as an
engine does. With `--context` it refuses what is longer, and says why in the words given.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHILD = "import time; time.sleep(300)"


def main() -> None:
    options = parse(sys.argv[1:])
    say("stand-in server starts")
    if options.exit_at_start:
        say(f"RuntimeError: {options.exit_at_start}")
        sys.exit(3)
    subprocess.Popen([sys.executable, "-c", CHILD])
    if options.never_ready:
        time.sleep(300)
    server = StandInServer(("127.0.0.1", options.port), Handler)
    server.options = options
    server.faults = [fault for fault in options.faults.split(",") if fault]
    server.serve_forever()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", default="")
    parser.add_argument("--faults-repeat", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--max-model-len", type=int, default=64)
    parser.add_argument("--tells-no-context", action="store_true")
    parser.add_argument("--context", type=int, default=2**30)
    parser.add_argument("--context-said", default="")
    parser.add_argument("--exit-at-start", default="")
    parser.add_argument("--never-ready", action="store_true")
    return parser.parse_args(arguments)


class StandInServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    options: argparse.Namespace
    faults: list[str]
    lock = threading.Lock()

    def next_fault(self) -> str:
        with self.lock:
            if not self.faults:
                return "none"
            return self.faults[0] if self.options.faults_repeat else self.faults.pop(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandInServer

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer({})
        elif self.is_authorised():
            card: dict[str, object] = {"id": "stepmark"}
            if not self.server.options.tells_no_context:
                card["max_model_len"] = self.server.options.max_model_len
            self.answer({"data": [card]})

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_authorised():
            return
        if self.server.options.record:
            with self.server.lock, self.server.options.record.open("a") as record:
                record.write(json.dumps(payload) + "\n")
        time.sleep(self.server.options.delay)
        fault = self.server.next_fault()
        status, _, retry_after = fault.partition("/")
        if status.isdigit():
            said = f"fault {status} for {self.headers['Authorization']}"
            self.answer({"error": said}, status=int(status), retry_after=retry_after)
        elif len(payload["prompt"]) + payload["max_tokens"] > self.server.options.context:
            self.answer({"message": self.server.options.context_said}, status=400)
        elif fault == "drip":
            self.drip(json.dumps(body(payload, "")).encode())
        elif fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "disconnect":
            self.close_connection = True
        elif fault == "hang":
            time.sleep(300)
        else:
            self.answer(body(payload, fault), is_cut=fault == "truncated")

    def is_authorised(self) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        if key is None or self.headers["Authorization"] == f"Bearer {key}":
            return True
        self.answer({"error": "Unauthorized"}, status=401)
        return False

    def answer(
        self, value: object, *, status: int = 200, is_cut: bool = False, retry_after: str = ""
    ) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(content[:-20] if is_cut else content)
        self.close_connection = is_cut

    def drip(self, content: bytes) -> None:
        """A byte every tenth of a second: never silent, never done."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the client gives up
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(0.1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def body(payload: dict, fault: str) -> object:
    choices = [
        {
            "index": index,
            "text": f"text-{payload['seed'] + index}",
            "finish_reason": "length" if index == 1 else "stop",
            "token_ids": list(range(3 + index)),
        }
        for index in range(payload["n"])
    ]
    if fault == "garbage":
        return "<html>"
    if fault == "wrong-n":
        choices.pop()
    if fault == "twice":
        choices[-1]["index"] = 0
    if fault == "surrogate":
        choices[0]["text"] = "a \ud83d b"
    if fault == "abort":
        choices[-1]["finish_reason"] = "abort"
    if fault == "shuffled":
        choices.reverse()
    if fault == "no-token-ids":
        for choice in choices:
            del choice["token_ids"]
    return {"choices": choices, "usage": {"completion_tokens": 1}}


if __name__ == "__main__":
    main()
