"""A stand-in for the part of the Hub's API that reading and publishing a dataset need, on a free
local port.

A commit is a folder of files, served in place; the newest commit of a dataset is its `main`.
Covered: files by HEAD and GET (a range, too), the dataset's and a revision's info, its tree and
paths-info, the Hub's own errors for a dataset, revision or file that it does not have, and what
`tests.hub_writes` adds: creating, uploading, committing, tagging. It is its clients' proxy as well,
so that no request, and no name look-up, leaves the machine: the data set viewer, whose address is
made from the endpoint's, has nothing, and every other host is refused.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub_writes import Answer, HubWrites, RefusedError, json_answer

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.datasets: dict[str, dict[str, Path]] = {}
        """Dataset id to (commit hash or branch or tag) to folder."""
        self.commits: dict[Path, str] = {}
        """Folder to hash, of commits that clients made; else it is the content's."""
        self.refused: list[str] = []
        """Requests for other hosts."""
        self.writes: HubWrites | None = None
        """Where clients may write; None is a Hub that only serves."""
        self.on_request: Callable[[str, str, str], None] = lambda phase, command, path: None
        """Called `before` and `after` each request; it may raise RefusedError before."""

    def commit(self, dataset_id: str, folder: Path, *, tag: str | None = None) -> str:
        """Serve `folder` as the newest commit of the dataset; returns the commit's hash."""
        commit = commit_hash(folder)
        names = (commit, "main") if tag is None else (commit, "main", tag)
        self.datasets.setdefault(dataset_id, {}).update(dict.fromkeys(names, folder))
        return commit

    def commit_of(self, folder: Path) -> str:
        return self.commits.get(folder) or commit_hash(folder)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed leave broken pipes."""

    def environment(self, home: Path) -> dict[str, str]:
        """Variables for a process that is to read this Hub, with its caches in `home`."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("HF_", "HUGGING")) and "PROXY" not in name.upper()
        }
        return {
            **kept,
            **dict.fromkeys(PROXIES, self.endpoint),
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # it asks a host of Amazon's
        }


@contextmanager
def hub_server() -> Iterator[HubServer]:
    with HubServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class HubHandler(BaseHTTPRequestHandler):
    server: HubServer

    def do_HEAD(self) -> None:
        self.respond()

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def do_PUT(self) -> None:
        self.respond()

    def do_CONNECT(self) -> None:
        self.respond()

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self.server.on_request("before", self.command, self.path)
            status, (content, headers) = HTTPStatus.OK, self.answer(body)
        except RefusedError as error:
            status, content = error.status, json.dumps({"error": error.code}).encode()
            headers = {"X-Error-Code": error.code, "X-Error-Message": error.message or error.code}
        self.server.on_request("after", self.command, self.path)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and status is HTTPStatus.OK:
            start, end = int(wanted[1]), min(int(wanted[2] or len(content)) + 1, len(content))
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
            status, content = HTTPStatus.PARTIAL_CONTENT, content[start:end]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def answer(self, body: bytes) -> Answer:
        url = urlsplit(self.path)
        if url.netloc.startswith("datasets-server."):
            raise RefusedError(HTTPStatus.NOT_FOUND, "ResponseNotFound")
        if self.command == "CONNECT" or f"http://{url.netloc}" not in (
            self.server.endpoint,
            "http://",
        ):
            self.server.refused.append(f"{self.command} {self.path}")
            raise RefusedError(HTTPStatus.FORBIDDEN, "OtherHost")
        query = parse_qs(url.query)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if self.server.writes is not None:
            written = self.server.writes.answer(self.command, parts, self.headers, body)
            if written is not None:
                return written
        match parts:
            case ["datasets", owner, name, "resolve", revision, *path]:
                folder = self.folder(f"{owner}/{name}", revision)
                return file_answer(folder, "/".join(path), self.server.commit_of(folder))
            case ["api", "datasets", owner, name, *revision]:
                kind, revision, *path = revision or ["revision", "main"]
                folder = self.folder(f"{owner}/{name}", revision)
                match kind:
                    case "revision":
                        return self.info_answer(folder, f"{owner}/{name}")
                    case "tree":
                        is_deep = query.get("recursive") == ["true"]
                        return tree_answer(folder, "/".join(path), is_deep=is_deep)
                    case "paths-info":
                        return paths_info_answer(folder, parse_qs(body.decode())["paths"])
        raise RefusedError(HTTPStatus.NOT_IMPLEMENTED, "NotInThisStandIn")

    def folder(self, dataset_id: str, revision: str) -> Path:
        revisions = self.server.datasets.get(dataset_id)
        if revisions is None:  # the Hub does not tell strangers which are missing, which private
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "RepoNotFound")
        if revision not in revisions:
            raise RefusedError(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        return revisions[revision]

    def info_answer(self, folder: Path, dataset_id: str) -> Answer:
        writes = self.server.writes
        return json_answer(
            {
                "id": dataset_id,
                "sha": self.server.commit_of(folder),
                "siblings": [{"rfilename": path} for path in files(folder)],
                "tags": [],
                "private": writes is not None and writes.is_private.get(dataset_id, False),
            }
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def file_answer(folder: Path, path: str, commit: str) -> Answer:
    if path not in files(folder):
        raise RefusedError(HTTPStatus.NOT_FOUND, "EntryNotFound")
    content = (folder / path).read_bytes()
    return content, {"X-Repo-Commit": commit, "ETag": f'"{blob_hash(content)}"'}


def tree_answer(folder: Path, top: str, *, is_deep: bool) -> Answer:
    if not (folder / top).is_dir():
        raise RefusedError(HTTPStatus.NOT_FOUND, "EntryNotFound")
    found = sorted((folder / top).rglob("*") if is_deep else (folder / top).iterdir())
    return json_answer([entry(folder, path) for path in found])


def paths_info_answer(folder: Path, paths: list[str]) -> Answer:
    known = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return json_answer([entry(folder, known[path]) for path in paths if path in known])


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def entry(folder: Path, path: Path) -> dict[str, object]:
    name = str(path.relative_to(folder))
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": blob_hash(name.encode()), "size": 0}
    content = path.read_bytes()
    found = {"type": "file", "path": name, "oid": blob_hash(content), "size": len(content)}
    if path.suffix == ".parquet":
        oid = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
    return found


def blob_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_hash(folder: Path) -> str:
    names = {path: blob_hash((folder / path).read_bytes()) for path in files(folder)}
    return hashlib.sha1(json.dumps(names).encode()).hexdigest()
