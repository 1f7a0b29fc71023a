"""A stand-in for the part of the Hub's API that reading a dataset needs, on a free local port.

A commit is a folder of files, served in place; the newest commit of a dataset is its `main`.
Covered: files by HEAD and GET, the dataset's and a revision's info, its tree and paths-info, and
the Hub's own errors for a dataset, revision or file that it does not have. It is its clients'
proxy as well, so that no request, and no name look-up, leaves the machine: the data set viewer,
whose address is made from the endpoint's, has nothing, and every other host is refused.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.datasets: dict[str, dict[str, Path]] = {}
        """Dataset id to (commit hash or branch or tag) to folder."""
        self.refused: list[str] = []
        """Requests for other hosts."""

    def commit(self, dataset_id: str, folder: Path, *, tag: str | None = None) -> str:
        """Serve `folder` as the newest commit of the dataset; returns the commit's hash."""
        commit = commit_hash(folder)
        names = (commit, "main") if tag is None else (commit, "main", tag)
        self.datasets.setdefault(dataset_id, {}).update(dict.fromkeys(names, folder))
        return commit

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

    def do_CONNECT(self) -> None:
        self.refuse_host()

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        if url.netloc.startswith("datasets-server."):
            return self.fail(HTTPStatus.NOT_FOUND, "ResponseNotFound")
        if url.netloc not in ("", urlsplit(self.server.endpoint).netloc):
            return self.refuse_host()
        match [unquote(part) for part in url.path.strip("/").split("/")]:
            case ["datasets", owner, name, "resolve", revision, *path]:
                return self.send_file(f"{owner}/{name}", revision, "/".join(path))
            case ["api", "datasets", owner, name]:
                return self.send_info(f"{owner}/{name}", "main")
            case ["api", "datasets", owner, name, "revision", revision]:
                return self.send_info(f"{owner}/{name}", revision)
            case ["api", "datasets", owner, name, "tree", revision, *path]:
                is_deep = parse_qs(url.query).get("recursive", [""])[0].lower() == "true"
                return self.send_tree(f"{owner}/{name}", revision, "/".join(path), is_deep)
            case ["api", "datasets", owner, name, "paths-info", revision]:
                paths = parse_qs(body.decode()).get("paths", [])
                return self.send_paths_info(f"{owner}/{name}", revision, paths)
            case _:
                return self.fail(HTTPStatus.NOT_IMPLEMENTED, "NotInStandIn")

    def folder(self, dataset_id: str, revision: str) -> Path | None:
        """The revision's folder; None once the request is answered with an error."""
        revisions = self.server.datasets.get(dataset_id)
        if revisions is None:  # to strangers the Hub does not say which of private and missing
            self.fail(HTTPStatus.UNAUTHORIZED, "RepoNotFound")
        elif revision not in revisions:
            self.fail(HTTPStatus.NOT_FOUND, "RevisionNotFound")
        else:
            return revisions[revision]
        return None

    def send_file(self, dataset_id: str, revision: str, path: str) -> None:
        if (folder := self.folder(dataset_id, revision)) is None:
            return
        commit = {"X-Repo-Commit": commit_hash(folder)}
        if path not in files(folder):
            return self.fail(HTTPStatus.NOT_FOUND, "EntryNotFound", commit)
        content = (folder / path).read_bytes()
        self.send(HTTPStatus.OK, content, {**commit, "ETag": f'"{blob_hash(content)}"'})

    def send_info(self, dataset_id: str, revision: str) -> None:
        if (folder := self.folder(dataset_id, revision)) is not None:
            siblings = [{"rfilename": path} for path in files(folder)]
            sha = commit_hash(folder)
            self.send_json({"id": dataset_id, "sha": sha, "siblings": siblings, "tags": []})

    def send_tree(self, dataset_id: str, revision: str, top: str, is_deep: bool) -> None:
        if (folder := self.folder(dataset_id, revision)) is None:
            return
        if top and not (folder / top).is_dir():
            return self.fail(HTTPStatus.NOT_FOUND, "EntryNotFound")
        found = sorted((folder / top).rglob("*") if is_deep else (folder / top).iterdir())
        self.send_json([entry(folder, path) for path in found])

    def send_paths_info(self, dataset_id: str, revision: str, paths: list[str]) -> None:
        if (folder := self.folder(dataset_id, revision)) is not None:
            known = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
            self.send_json([entry(folder, known[path]) for path in paths if path in known])

    def refuse_host(self) -> None:
        self.server.refused.append(f"{self.command} {self.path}")
        self.fail(HTTPStatus.FORBIDDEN, "OtherHost")

    def fail(self, status: HTTPStatus, code: str, headers: dict[str, str] | None = None) -> None:
        message = json.dumps({"error": code}).encode()
        self.send(status, message, {**(headers or {}), "X-Error-Code": code})

    def send_json(self, value: object) -> None:
        self.send(HTTPStatus.OK, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, status: HTTPStatus, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        if os.environ.get("HUBLOG"):
            open(os.environ["HUBLOG"], "a").write(f"{self.command} {self.path} {args[1]}\n")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def entry(folder: Path, path: Path) -> dict[str, object]:
    name = str(path.relative_to(folder))
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": blob_hash(name.encode()), "size": 0}
    content = path.read_bytes()
    return {"type": "file", "path": name, "oid": blob_hash(content), "size": len(content)}


def blob_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_hash(folder: Path) -> str:
    names = {path: blob_hash((folder / path).read_bytes()) for path in files(folder)}
    return hashlib.sha1(json.dumps(names).encode()).hexdigest()
