"""The command `stepmark solve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flows.cli_options import ConfigOption, SetOption
from pipeline.errors import ConfigError
from pipeline.samplers.interrupts import interrupts_deferred

if TYPE_CHECKING:
    from flows.run_config import RunConfig
    from flows.solve import Prm


def solve(
    prm: Annotated[Path, typer.Option(help="A PRM folder that train wrote.")],
    config: ConfigOption,
    question: Annotated[str | None, typer.Argument(help="The question to answer.")] = None,
    method: Annotated[
        str | None, typer.Option(help="best-of-n, beam, dvts or mcts; default: search.method.")
    ] = None,
    input_: Annotated[
        Path | None,
        typer.Option("--input", help="jsonl rows: question, and problem_id, gold_answer if known."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="jsonl rows, one as soon as its question is answered.")
    ] = None,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the solutions and the tree here.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Solutions to show.")] = 3,
    set_: SetOption = None,
) -> None:
    """Answer a question, or a file of them, with a search that the PRM guides.

    Shows the ranked solutions with their step scores and, of beam, dvts and mcts, the tree. With
    --input and --output a killed run goes on where it was; answers are graded where the rows
    have a gold_answer.
    """
    from flows.run_config import load_config

    if (question is None) == (input_ is None) or (input_ is None) != (output is None):
        raise ConfigError("give either a QUESTION, or --input and --output")
    if input_ is not None and json_ is not None:
        raise ConfigError("--json is of one QUESTION; with --input the rows are in --output")
    if question is not None and not question.strip():
        raise ConfigError("the question is empty: there is nothing to solve")
    overrides = [*(set_ or ()), *([f"search.method={method}"] if method else [])]
    resolved = load_config(config, overrides)
    loaded = _load_prm(prm)
    if question is not None:
        _solve_one(resolved, question, loaded, json_, limit=limit)
    elif input_ is not None and output is not None:
        _solve_file(resolved, input_, output, loaded)


def _solve_one(
    config: "RunConfig", question: str, prm: "Prm", json_: Path | None, *, limit: int
) -> None:
    from flows.solve import solve_question
    from flows.solve_display import answer_sentence, search_tree, solutions_panel
    from flows.solved_rows import result_as_json
    from search.config import SearchMethod
    from storage.files import write_json

    result = solve_question(config, question, prm=prm)
    console = Console()
    if result.method is not SearchMethod.BEST_OF_N:
        console.print(search_tree(result))
    console.print(solutions_panel(result, limit=limit))
    console.print(answer_sentence(result))
    if json_ is not None:
        write_json(json_, result_as_json(result, with_tree=True))


def _solve_file(config: "RunConfig", source: Path, output: Path, prm: "Prm") -> None:
    from flows.progress import counting_progress
    from flows.solve import solve_file

    with counting_progress("solving", unit="questions") as on_progress:
        summary = solve_file(config, source, output, prm=prm, on_progress=on_progress)
    console = Console()
    kept = f" ({summary.num_kept} by an earlier run)" if summary.num_kept else ""
    console.print(
        f"{summary.num_questions} questions answered{kept}, {summary.num_without_answer} without "
        f"an answer; {summary.num_tokens:,} generated tokens.",
        highlight=False,
    )
    if summary.num_graded:
        console.print(
            f"Of {summary.num_graded} with a gold answer {summary.num_correct} are correct "
            f"({100 * summary.num_correct / summary.num_graded:.1f} %), {summary.num_undecided} "
            f"undecided; a majority vote over the same solutions gets "
            f"{summary.num_majority_correct} "
            f"({100 * summary.num_majority_correct / summary.num_graded:.1f} %).",
            highlight=False,
        )
    console.print(f"Answers: {output}", markup=False, highlight=False)


def _load_prm(folder: Path) -> "Prm":
    from flows.solve import Prm
    from search.scoring import Aggregation
    from storage.files import file_hash

    with interrupts_deferred():
        from train.scorer import PrmScorer
    scorer = PrmScorer.load(folder)
    files = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    identity = "/".join(file_hash(file) for file in files)
    return Prm(scorer, identity, Aggregation(scorer.aggregation))
