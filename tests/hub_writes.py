"""What the stand-in Hub (`tests.hub_server`) does for those who publish.

Creating a dataset, the upload modes, large files by LFS (batch and PUT), a commit that is refused
with 412 where its parent is not the newest one, and tags. Commits are folders, as the server
serves them; a commit is one step, under a lock. A token is asked for, and for a private dataset
for reading as well.
"""

import base64
import hashlib
import json
import shutil
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

Answer = tuple[bytes, dict[str, str]]


class RefusedError(Exception):
    """The Hub's error for a request."""

    def __init__(self, status: HTTPStatus, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message


class HubWrites:
    """`datasets` and `commits` are the server's own; `root` is an empty folder."""

    def __init__(
        self,
        root: Path,
        *,
        endpoint: str,
        token: str,
        datasets: dict[str, dict[str, Path]],
        commits: dict[Path, str],
    ) -> None:
        self.is_private: dict[str, bool] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.history: dict[str, list[str]] = {}
        """The commits of each dataset, oldest first."""
        self.uploaded: list[int] = []
        """Bytes of each large file that was sent."""
        self._root, self._endpoint, self._token = root, endpoint, token
        self._datasets, self._commits = datasets, commits
        self._lock = threading.Lock()
        self._blobs: dict[str, bytes] = {}

    def folder(self, dataset: str) -> Path:
        """The newest commit's files."""
        return self._datasets[dataset]["main"]

    def forget_uploads(self) -> None:
        """Large files have to be sent again, also those of present commits."""
        self._blobs.clear()

    def answer(
        self, command: str, parts: list[str], headers: Mapping[str, str], body: bytes
    ) -> Answer | None:
        """None where the request is one of reading, which the server answers."""
        self._check_token(command, parts, headers)
        match command, parts:
            case "POST", ["api", "repos", "create"]:
                return self._create(json.loads(body))
            case "POST", ["api", "validate-yaml"]:
                return json_answer({"errors": [], "warnings": []})
            case "POST", ["api", "datasets", owner, name, "preupload", _]:
                return self._upload_modes(f"{owner}/{name}", json.loads(body))
            case "POST", ["datasets", _, _, "info", "lfs", "objects", "batch"]:
                return self._batch(json.loads(body))
            case "PUT", ["blobs", oid]:
                if hashlib.sha256(body).hexdigest() != oid:
                    raise RefusedError(HTTPStatus.BAD_REQUEST, "OtherContent")
                self._blobs[oid] = body
                self.uploaded.append(len(body))
                return b"", {}
            case "POST", ["api", "datasets", owner, name, "commit", "main"]:
                return self._commit(f"{owner}/{name}", body)
            case "POST", ["api", "datasets", owner, name, "tag", revision]:
                return self._tag(f"{owner}/{name}", revision, json.loads(body))
            case "GET", ["api", "datasets", owner, name, "refs"]:
                tags = self.tags[f"{owner}/{name}"].items()
                listed = [
                    {"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": commit}
                    for tag, commit in tags
                ]
                return json_answer({"branches": [], "converts": [], "tags": listed})
        return None

    def _check_token(self, command: str, parts: list[str], headers: Mapping[str, str]) -> None:
        named = parts[2:4] if parts[0] == "api" else parts[1:3]
        is_private = self.is_private.get("/".join(named), False)
        is_write = command == "PUT" or (command == "POST" and parts[-2:-1] != ["paths-info"])
        if parts[0] == "blobs":  # its address is what gives access
            return
        if (is_private or is_write) and headers.get("Authorization") != f"Bearer {self._token}":
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "RepoNotFound" if is_private else "")

    def _create(self, wanted: dict[str, Any]) -> Answer:
        dataset = f"{wanted['organization']}/{wanted['name']}"
        with self._lock:
            if dataset in self._datasets:
                raise RefusedError(HTTPStatus.CONFLICT, "")
            self.is_private[dataset] = wanted.get("visibility") == "private"
            self.tags[dataset] = {}
            folder = self._root / dataset / "0"
            folder.mkdir(parents=True)
            (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")
            self._put(dataset, folder)
        return json_answer({"url": f"{self._endpoint}/datasets/{dataset}", "id": dataset})

    def _put(self, dataset: str, folder: Path) -> str:
        history = self.history.setdefault(dataset, [])
        named = f"{dataset} {len(history)} {history[-1:]} {folder}"
        commit = hashlib.sha1(named.encode()).hexdigest()
        self._commits[folder] = commit
        self._datasets.setdefault(dataset, {}).update({commit: folder, "main": folder})
        history.append(commit)
        return commit

    def _upload_modes(self, dataset: str, wanted: dict[str, Any]) -> Answer:
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".parquet") else "regular",
                "shouldIgnore": False,
            }
            for file in wanted["files"]
        ]
        return json_answer({"files": modes})

    def _batch(self, wanted: dict[str, Any]) -> Answer:
        objects: list[dict[str, object]] = []
        for one in wanted["objects"]:
            known = one["oid"] in self._blobs
            href = f"{self._endpoint}/blobs/{one['oid']}?signature=secret"
            actions = {} if known else {"actions": {"upload": {"href": href}}}
            objects.append({**one, **actions})
        return json_answer({"transfer": "basic", "objects": objects})

    def _commit(self, dataset: str, body: bytes) -> Answer:
        header, *changes = [json.loads(line) for line in body.splitlines()]
        with self._lock:
            history = self.history[dataset]
            if header["value"].get("parentCommit") not in (None, history[-1]):
                raise RefusedError(
                    HTTPStatus.PRECONDITION_FAILED, "", "A commit has happened since"
                )
            folder = self._root / dataset / str(len(history))
            shutil.copytree(self.folder(dataset), folder)
            for change in changes:
                self._change(folder, change["key"], change["value"])
            commit = self._put(dataset, folder)
        url = f"{self._endpoint}/datasets/{dataset}/commit/{commit}"
        return json_answer({"commitOid": commit, "commitUrl": url, "success": True})

    def _change(self, folder: Path, kind: str, value: dict[str, Any]) -> None:
        file = folder / value["path"]
        match kind:
            case "deletedFile":
                file.unlink()
            case "file":
                file.write_bytes(base64.b64decode(value["content"]))
            case "lfsFile":
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(self._blobs[value["oid"]])

    def _tag(self, dataset: str, revision: str, wanted: dict[str, Any]) -> Answer:
        with self._lock:
            if wanted["tag"] in self.tags[dataset]:
                raise RefusedError(HTTPStatus.CONFLICT, "", "Tag reference exists already")
            self.tags[dataset][wanted["tag"]] = revision
            self._datasets[dataset][wanted["tag"]] = self._datasets[dataset][revision]
        return b"", {}


def json_answer(value: object) -> Answer:
    return json.dumps(value).encode(), {"Content-Type": "application/json"}
