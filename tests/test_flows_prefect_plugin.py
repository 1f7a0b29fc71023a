"""The plugin: reading the command, resolving bare names, refusing bad parameters."""

import asyncio
import logging
import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from prefect.plugins import HookContext

from flows import prefect_plugin
from flows.prefect_plugin import (
    Deployed,
    DeploymentRun,
    RefusedError,
    check,
    is_bare,
    read_command,
    resolve,
)

CHECKOUT = Path(__file__).parents[1]
ON_DEMAND = Deployed("generate-labels", "generate-labels", {"config": "c.toml", "out": "out"})
OTHER = Deployed("other-flow", "generate-labels", {})


def _run(name: str | None = "generate-labels", **parameters: object) -> DeploymentRun:
    return DeploymentRun(name=name, name_index=0, deployment_id=None, parameters=parameters)


@pytest.mark.parametrize(
    ("tokens", "name", "index"),
    [
        (["generate-labels"], "generate-labels", 0),
        (["generate-labels", "--tag", "generate-labels"], "generate-labels", 0),
        (["--tag", "generate-labels", "generate-labels"], "generate-labels", 2),
        (["-p", "config=a.toml", "generate-labels", "--watch"], "generate-labels", 2),
        (["generate-labels/nightly"], "generate-labels/nightly", 0),
    ],
)
def test_the_name_is_found_among_the_options(tokens: list[str], name: str, index: int) -> None:
    run = read_command(tokens)
    assert run is not None
    assert (run.name, run.name_index) == (name, index)
    assert is_bare(run) == ("/" not in name)


def test_parameters_are_read_as_prefect_reads_them() -> None:
    tokens = ["n", "-p", "config=a.toml", "--param=limit=3", "--params", '{"out": "x", "limit": 1}']
    run = read_command(tokens)
    assert run is not None
    assert run.parameters == {"config": "a.toml", "limit": 3, "out": "x"}


def test_an_id_is_read() -> None:
    run = read_command(["--id", "0f0f", "-p", "out=x"])
    assert run == DeploymentRun(None, None, "0f0f", {"out": "x"})


@pytest.mark.parametrize("tokens", [["n", "--params", "-"], ["n", "--params", "{"]])
def test_parameters_that_cannot_be_known_are_left_to_prefect(tokens: list[str]) -> None:
    run = read_command(tokens)
    assert run is not None
    assert run.parameters is None
    check(run, ON_DEMAND)


@pytest.mark.parametrize("tokens", [["--bogus", "x"], ["n", "--help"]])
def test_what_prefect_refuses_or_explains_is_left_alone(tokens: list[str]) -> None:
    assert read_command(tokens) is None


def test_a_bare_name_means_the_only_deployment_of_that_name() -> None:
    assert resolve(_run(), [ON_DEMAND]) == ON_DEMAND


def test_a_bare_name_without_a_deployment_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"no deployment named 'nothing'.*prefect deploy --all"):
        resolve(_run("nothing"), [])


def test_a_bare_name_with_several_deployments_is_refused() -> None:
    message = "one of generate-labels/generate-labels, other-flow/generate-labels"
    with pytest.raises(RefusedError, match=message):
        resolve(_run(), [ON_DEMAND, OTHER])


def test_flow_and_deployment_are_left_to_prefect() -> None:
    assert resolve(_run("a/b"), []) is None


def test_the_deployments_defaults_are_checked_with_what_was_typed(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[problems]\nlimit = 5\n")
    check(_run(config=str(config)), ON_DEMAND)
    with pytest.raises(RefusedError, match=r"not submitted: there is no config file c\.toml"):
        check(_run(), ON_DEMAND)
    with pytest.raises(RefusedError, match=r"unknown key problems\.limti"):
        check(_run(config=str(config), overrides=["problems.limti=1"]), ON_DEMAND)


def test_parameters_of_other_flows_are_not_ours(tmp_path: Path) -> None:
    check(_run(anything=1), OTHER)


async def _hook(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *argv])
    context = HookContext("3", "http://127.0.0.1:9/api", logging.getLogger)
    await prefect_plugin.setup_environment(ctx=context)


@pytest.mark.parametrize(
    "argv",
    [
        ["stepmark", "demo"],
        ["/bin/prefect", "worker", "start"],
        ["/bin/prefect", "deployment", "ls"],
        ["-m", "pytest", "deployment", "run", "generate-labels"],
        ["/bin/prefect", "deployment", "run", "--help"],
    ],
)
def test_other_commands_are_untouched(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_hook(list(argv), monkeypatch))
    assert sys.argv == argv


def test_a_bare_name_without_a_server_ends_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "deployment", "run", "generate-labels"],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "PREFECT_API_URL": "http://127.0.0.1:9/api",
            "PREFECT_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "the Prefect server at http://127.0.0.1:9/api does not answer" in done.stderr


def test_the_entry_point_is_this_module() -> None:
    (entry,) = entry_points(group="prefect.plugins", name="stepmark-bare-deployment-names")
    assert entry.load() is prefect_plugin
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert settings["tool"]["prefect"]["plugins"]["enabled"] is True
