"""Files into a dataset repo of the Hugging Face Hub, in one commit, with a tag of the day.

The commit is made onto the parent that was looked at (compare and swap: the Hub answers 412
where another commit came first), so a reader sees the old files or the new ones, and of two
publishers one wins and the other looks again. What is the same already is neither sent nor
committed. `Dataset.push_to_hub` is not used: it deletes other shards of a split and retries for
ever. Faults of the network are met with another try, with growing pauses, and no local file
is touched.

The token comes from the environment or the Hub's own login; it is in no message of ours.
"""

import hashlib
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError, HubError
from storage.files import file_hash
from storage.hub_requests import hub_token, with_patience
from storage.problem_config import SPLIT_NAME

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"
MADE_BY = "<!-- made by stepmark publish -->"
"""A line of the card: its absence beside data says that the repo is another program's."""
OUR_FILE = re.compile(rf"(?:data|trl|rollouts)/{SPLIT_NAME}-\d{{5}}-of-\d{{5}}\.parquet")
"""What a publish may replace or delete in a repo, besides the card."""

_TAG = re.compile(r"v\d{4}-\d{2}-\d{2}(-\d+)?")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file to publish: its name in the repo, the local file, its SHA-256 and bytes."""

    name: str
    path: Path
    sha256: str
    num_bytes: int

    @classmethod
    def of(cls, path: Path, name: str) -> "HubFile":
        """The local file `path` under `name`."""
        return cls(name, path, file_hash(path), path.stat().st_size)


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """What a repo holds after a publish. `is_new` is false where it held just that before."""

    commit: str
    tag: str
    is_new: bool
    added: tuple[str, ...]
    deleted: tuple[str, ...]
    card: str


@dataclass(frozen=True, slots=True)
class _Head:
    """The newest commit: its hash, and of each file the SHA-256, or git's hash of a small one."""

    commit: str
    hashes: dict[str, str]
    card: str | None


def publish_files(
    repo: str,
    files: Sequence[HubFile],
    *,
    card: Callable[[str | None], str],
    private: bool,
    message: str,
    day: str,
    patience_seconds: float,
) -> PublishedCommit:
    """Make `files`, and the card that `card` makes of the present one, the content of `repo`.

    The repo is made where it is missing. `day` is as in 2026-12-01. Raises ConfigError where
    there is no token or it is refused, or the repo is of the other visibility or another
    program's, and HubError where the Hub cannot be reached; the repo is then as it was.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.utils import disable_progress_bars

    token = hub_token()
    disable_progress_bars()
    api = HfApi(token=token, library_name="stepmark")
    operations = {
        file.name: CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file.path)
        for file in files
    }

    found: list[_Head] = []

    def attempt() -> PublishedCommit:
        head = _head(api, repo, private=private)
        found.append(head)
        text = card(head.card).encode()
        wanted = {file.name: file.sha256 for file in files} | {CARD: _git_hash(text)}
        added, deleted = _difference(head, wanted)
        commit = head.commit
        if added or deleted:
            operations[CARD] = CommitOperationAdd(path_in_repo=CARD, path_or_fileobj=text)
            commit = _commit(
                api, repo, [operations[name] for name in added], deleted, head.commit, message
            )
        # against what was there at first: the answer to our own commit may have been lost
        added, deleted = _difference(found[0], wanted)
        is_new = commit != found[0].commit
        return PublishedCommit(commit, "", is_new, added, deleted, text.decode())

    patiently = partial(with_patience, repo=repo, token=token, patience_seconds=patience_seconds)
    done = patiently(attempt, failure=f"{repo} was not published")
    tag = patiently(
        lambda: _tag(api, repo, done.commit, day),
        failure=f"{repo} holds the labels (commit {done.commit}), but was not tagged",
    )
    return replace(done, tag=tag)


def check_repo(repo: str) -> None:
    """Raises ConfigError where `repo` is no name ORG/NAME that the Hub takes."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ConfigError(f"--repo {repo!r}: {error}") from error
    if "/" not in repo:
        raise ConfigError(f"--repo {repo!r} names no owner: give ORG/NAME")


def _head(api: "HfApi", repo: str, *, private: bool) -> _Head:
    """The newest commit of the repo, which is made where it is missing."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        info = api.dataset_info(repo)
    except RepositoryNotFoundError:
        # `private=None` would make it public; another publisher may make it at this instant
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        info = api.dataset_info(repo)
    if info.private is None or info.sha is None:
        raise HubError(f"the Hub does not say of {repo} whether it is private; nothing was sent")
    _check_visibility(api, repo, is_private=info.private, private=private)
    entries = api.list_repo_tree(repo, repo_type="dataset", recursive=True, revision=info.sha)
    hashes = {
        entry.path: entry.lfs.sha256 if entry.lfs is not None else entry.blob_id
        for entry in entries
        if isinstance(entry, RepoFile)
    }
    card = _card(api, repo, info.sha) if CARD in hashes else None
    if any(OUR_FILE.fullmatch(name) for name in hashes) and MADE_BY not in (card or ""):
        raise ConfigError(
            f"{repo} holds data that `stepmark publish` has not put there (its {CARD} does not say "
            "so): name another repo"
        )
    return _Head(info.sha, hashes, card)


def _difference(head: _Head, wanted: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names to add or change, and those of ours to delete."""
    added = [name for name, content in wanted.items() if head.hashes.get(name) != content]
    deleted = [name for name in head.hashes if OUR_FILE.fullmatch(name) and name not in wanted]
    return tuple(added), tuple(deleted)


def _check_visibility(api: "HfApi", repo: str, *, is_private: bool, private: bool) -> None:
    if is_private == private:
        return
    is_so, asked, option = ("private", "public", "--private") if is_private else (
        "public", "private", "--public"
    )  # fmt: skip
    raise ConfigError(
        f"{repo} is {is_so}, and a {asked} one was asked for: publish with {option}, change it "
        f"yourself in {api.endpoint}/datasets/{repo}/settings, or name another repo"
    )


def _card(api: "HfApi", repo: str, commit: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = api.hf_hub_download(
            repo, CARD, repo_type="dataset", revision=commit, local_dir=folder
        )
        return Path(file).read_text(encoding="utf-8", errors="replace")


def _commit(
    api: "HfApi",
    repo: str,
    additions: Sequence[object],
    deleted: Sequence[str],
    parent: str,
    message: str,
) -> str:
    from huggingface_hub import CommitOperationDelete

    deletions = [CommitOperationDelete(path_in_repo=name, is_folder=False) for name in deleted]
    made = api.create_commit(
        repo,
        [*additions, *deletions],  # type: ignore[list-item]
        repo_type="dataset",
        commit_message=message,
        parent_commit=parent,
    )
    return made.oid


def _tag(api: "HfApi", repo: str, commit: str, day: str) -> str:
    """The tag of the commit; made where it has none, with a number where the day's is taken."""
    tags = {
        tag.name: tag.target_commit for tag in api.list_repo_refs(repo, repo_type="dataset").tags
    }
    ours = [name for name, of in tags.items() if of == commit and _TAG.fullmatch(name)]
    if ours:
        return ours[0]
    name, number = f"v{day}", 1
    while name in tags:
        number += 1
        name = f"v{day}-{number}"
    api.create_tag(repo, tag=name, revision=commit, repo_type="dataset")
    return name


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
