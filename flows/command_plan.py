"""`stepmark plan`: what `stepmark generate` would do, without doing it."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli_options import ConfigOption, SetOption

if TYPE_CHECKING:
    from flows.plan import Plan
    from flows.plan_estimate import Estimate

SHOWN_IDS = 5
SHOWN_VALUE = 60


def plan(
    config: ConfigOption,
    out: Annotated[Path, typer.Option(help="The dataset folder; it need not exist yet.")],
    set_: SetOption = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the plan here.")] = None,
) -> None:
    """Say what generate would do, and about what it would cost. Changes nothing."""
    from rich.console import Console

    from flows.display import figures_table, printable
    from flows.plan import make_plan
    from flows.run_config import load_config
    from storage.dataset import dataset_path
    from storage.files import write_json
    from storage.lock import lock_holder
    from storage.lock_holder import described

    console, folder = Console(), dataset_path(out)
    found = make_plan(load_config(config, set_ or ()), folder)
    holder = lock_holder(folder)
    if holder is not None:
        console.print(printable(f"Another run may be at work: {described(holder)}."), markup=False)
    console.print(figures_table("Plan", {
        name: printable(value) for name, value in _figures(found).items()
    }))  # fmt: skip
    if found.does_nothing:
        console.print("Nothing to do: no rollout to draw, no verdict to make anew.")
    if json_ is not None:
        write_json(json_, found.as_json())


def _figures(plan: "Plan") -> dict[str, str]:
    figures = {
        "problems: new": _named(plan.new),
        "  changed question": _named(plan.changed_question.values()),
        "  changed gold answer": _named(plan.changed_gold),
        "  unchanged": f"{plan.num_unchanged:,}",
        "  no longer selected": _named(plan.no_longer_selected),
        "  rejected rows": f"{len(plan.rejected_rows):,}",
        "rollouts to regrade": f"{plan.num_to_regrade:,}",
        "problems to sample for": f"{plan.num_unfinished:,}",
        "  rollouts of it": _described(plan.sampling, is_none=not plan.num_unfinished),
        "wide prefixes to top up": f"{plan.num_wide_prefixes:,}",
        "  at most": _described(plan.top_up, is_none=not plan.num_wide_prefixes),
        "model, prompt, sampling, steps, seed": (
            "changed: all problems are labelled anew" if plan.relabels else "as before"
        ),
    }
    for change in plan.config_changes:
        figures[f"  {change.key}"] = f"{_value(change.old)} -> {_value(change.new)}"
    return figures


def _named(ids: Collection[str]) -> str:
    if not ids:
        return "0"
    more = ", …" if len(ids) > SHOWN_IDS else ""
    return f"{len(ids):,} ({', '.join(list(ids)[:SHOWN_IDS])}{more})"


def _described(estimate: "Estimate | None", *, is_none: bool) -> str:
    if is_none:
        return "none"
    if estimate is None:
        return "unknown: nothing was sampled here before"
    seconds = "unknown" if estimate.seconds is None else f"{estimate.seconds:,.0f} s"
    bound = ", where a budget ends it" if estimate.is_bounded else ""
    basis = "" if estimate.is_own else ", judged by another model or other settings"
    return (
        f"about {estimate.num_rollouts:,}, {estimate.num_tokens:,} generated tokens, "
        f"{seconds} of sampling{bound}{basis}"
    )


def _value(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}…"
