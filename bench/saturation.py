"""How busy the pipeline keeps the engine, in generated tokens a second.

    .venv/bin/python -m bench.saturation --engine transformers
    .venv/bin/python -m bench.saturation --engine vllm --repeats 2

Four ways through the same requests on one running engine: `raw` (the engine alone, as many
samples in flight as the pipeline has), `raw, all at once` (the engine may choose among all
requests of the run, which no pipeline knows in advance), `pipeline` (policy, sampling,
grading, journal), and `usual loop` (one problem after another, each prompt sent K times with
n = 1, the next problem when the last rollout is back). The usual loop takes the first
problems only: it is slow. Prints a table and writes JSON. Default: the demo's model and
problems on the CPU.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

if __name__ == "__main__":  # as a script, this folder would hide the packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rich.console import Console
from rich.table import Table

from flows.engines import Engine, max_samples_in_flight, open_engine, resolve_engine
from flows.run_config import RunConfig, load_config
from flows.selection import selected_problems
from flows.stages import prepare_problems
from grading.pool import GradePool
from labeling.engine import LabelingTools, roll_out
from labeling.turns import Turns
from labeling.work import Work
from pipeline.records import Problem
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest
from storage.journal import Journal

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Recorder:
    """Hands requests on and keeps them, in the order in which they were made."""

    sampler: Sampler
    requests: list[SamplingRequest] = field(default_factory=list)
    num_tokens: int = 0

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        self.requests.append(request)
        completions = await self.sampler.sample(request)
        self.num_tokens += sum(one.num_tokens for one in completions)
        return completions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default=str(ROOT / "configs/demo.toml"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--engine", default="transformers", choices=["transformers", "vllm"])
    parser.add_argument("--num-problems", type=int, default=96)
    parser.add_argument("--loop-problems", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/saturation.json")
    options = parser.parse_args()
    overrides = [
        f"engine.kind='{options.engine}'",
        f"problems.limit={options.num_problems}",
        *options.set,
    ]
    config = load_config(options.config, overrides)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(_measure(config, Path(folder), options))
    _show(figures, Console())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    results[options.engine] = figures
    options.json.write_text(json.dumps(results, indent=1) + "\n")


async def _measure(config: RunConfig, folder: Path, options: Any) -> dict[str, Any]:
    engine = resolve_engine(config)
    prepare_problems(config, folder)
    problems = selected_problems(folder)
    speeds: dict[str, list[float]] = defaultdict(list)
    async with open_engine(
        engine, config, problems=problems, state_path=folder / "engine"
    ) as sampler:
        max_samples = max_samples_in_flight(sampler, config)
        warm = await _pipeline(
            sampler,
            engine,
            config,
            problems[:4],
            folder / "warm",
            max_samples=max_samples,
        )
        await _raw(sampler, warm.requests)
        for repeat in range(options.repeats):
            started = time.perf_counter()
            recorder = await _pipeline(
                sampler,
                engine,
                config,
                problems,
                folder / str(repeat),
                max_samples=max_samples,
            )
            speeds["pipeline"].append(recorder.num_tokens / (time.perf_counter() - started))
            turns = Turns(max_samples)
            speeds["raw"].append(await _timed(_raw(sampler, recorder.requests, turns)))
            speeds["raw, all at once"].append(await _timed(_raw(sampler, recorder.requests)))
            few = {problem.problem_id for problem in problems[: options.loop_problems]}
            own = [request for request in recorder.requests if request.affinity in few]
            speeds["usual loop"].append(await _timed(_usual_loop(sampler, own)))
    return {
        "num_problems": len(problems),
        "num_requests": len(recorder.requests),
        "num_tokens": recorder.num_tokens,
        "tokens_per_second": dict(speeds),
        "pipeline_over_raw": median(map(_quotient, speeds["pipeline"], speeds["raw"])),
        "pipeline_over_raw_all_at_once": median(
            map(_quotient, speeds["pipeline"], speeds["raw, all at once"])
        ),
        "pipeline_over_usual_loop": median(
            map(_quotient, speeds["pipeline"], speeds["usual loop"])
        ),
    }


async def _pipeline(
    sampler: Sampler,
    engine: Engine,
    config: RunConfig,
    problems: Sequence[Problem],
    out: Path,
    *,
    max_samples: int,
) -> Recorder:
    recorder = Recorder(sampler)
    with GradePool(config.grading) as pool, Journal(out) as journal:
        await roll_out(
            [Work(problem) for problem in problems],
            tools=LabelingTools(
                sampler=recorder,
                encoder=engine.encoder,
                grade=pool.agrade_all,
                write=journal.append,
                now=lambda: "",
                on_done=lambda _: None,
            ),
            identity=engine.identity,
            sampling=config.sampling,
            steps=config.steps,
            allocation=config.allocation,
            max_samples=max_samples,
        )
    return recorder


async def _raw(
    sampler: Sampler, requests: Sequence[SamplingRequest], turns: Turns | None = None
) -> int:
    async def ask(request: SamplingRequest) -> list[Completion]:
        async with turns.turn(request.num_samples) if turns else contextlib.nullcontext():
            return await sampler.sample(request)

    answers = await asyncio.gather(*(ask(request) for request in requests))
    return sum(one.num_tokens for completions in answers for one in completions)


async def _usual_loop(sampler: Sampler, requests: Sequence[SamplingRequest]) -> int:
    by_problem: dict[str, list[SamplingRequest]] = defaultdict(list)
    for request in requests:
        by_problem[request.affinity].append(request)
    num_tokens = 0
    for own in by_problem.values():
        singles = [
            replace(request, num_samples=1, seed=request.seed + child)
            for request in own
            for child in range(request.num_samples)
        ]
        num_tokens += await _raw(sampler, singles)
    return num_tokens


async def _timed(work: Any) -> float:
    started = time.perf_counter()
    num_tokens: int = await work
    return num_tokens / (time.perf_counter() - started)


def _quotient(first: float, second: float) -> float:
    return first / second


def _show(figures: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{figures['num_requests']} requests, {figures['num_tokens']} tokens")
    table.add_column("way")
    table.add_column("tokens/s, each repeat", justify="right")
    for way, speeds in figures["tokens_per_second"].items():
        table.add_row(way, "  ".join(f"{speed:,.0f}" for speed in speeds))
    console.print(table)
    console.print(
        f"pipeline ÷ raw engine {figures['pipeline_over_raw']:.3f}, "
        f"÷ raw, all at once {figures['pipeline_over_raw_all_at_once']:.3f}, "
        f"÷ usual loop {figures['pipeline_over_usual_loop']:.2f}"
    )


if __name__ == "__main__":
    main()
