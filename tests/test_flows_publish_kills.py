"""A publisher that is killed at any request leaves the repo as it was or as it would be."""

import itertools
import os
import signal
import threading
from pathlib import Path

from tests.publish_writer import solution, write_labels
from tests.published_hub import REPO, PublishedHub, order, published_hub

FEWEST_KILLS = 24


def test_kills(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for index, path in enumerate(paths):
        splits = ("train", "test", "extra")[: 2 + index]
        write_labels(
            path,
            [solution(i, num_correct=4 + index, split=splits[i % len(splits)]) for i in range(6)],
        )
    home = tmp_path / "home"
    home.mkdir()
    with published_hub(home) as hub:
        contents: list[dict[str, bytes]] = []
        for path in paths:
            hub.publish(path)
            contents.append(hub.files())
        now, num_kills, num_new = 1, 0, 0
        while _is_killed(hub, paths[1 - now], at=num_kills):
            num_kills += 1
            assert hub.files() in contents
            if hub.files() == contents[1 - now]:
                num_new += 1
                now = 1 - now
                report = hub.publish(paths[now])  # completes what the kill left
                assert report["is_new"] is False
                assert hub.writes.tags[REPO][report["tag"]] == hub.writes.history[REPO][-1]
        assert num_kills >= FEWEST_KILLS
        assert 0 < num_new < num_kills
        assert hub.files() == contents[1 - now]
    for path in paths:
        assert not list(path.rglob("*.tmp"))


def _is_killed(hub: PublishedHub, path: Path, *, at: int) -> bool:
    """Publish, and kill the publisher before or after one of its requests."""
    pids: list[int] = []
    is_known = threading.Event()
    places = itertools.count()

    def kill(phase: str, command: str, address: str) -> None:
        if next(places) == at:
            assert is_known.wait(30)
            os.kill(pids[0], signal.SIGKILL)

    hub.writes.forget_uploads()  # so that each publisher has files to send
    hub.server.on_request = kill
    pids += hub.start(order(path))
    is_known.set()
    (answer,) = hub.wait()
    hub.server.on_request = lambda phase, command, address: None
    assert answer == {"killed": True} or answer["report"]["is_new"]
    return "killed" in answer
