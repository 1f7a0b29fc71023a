"""What a run cost, in words: from the manifest, for the end summary and Prefect's pages."""

from collections.abc import Mapping
from typing import Any


def model_figures(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Who wrote the solutions and who rolled them out; one row where one model did both."""
    models = {name: str(manifest[name]) for name in ("generator", "completer")}
    if manifest["generator_digest"] == manifest["sampling_digest"]:
        del models["generator"]
    return models


def cost_figures(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Requests, tokens and rollouts of both stages over all runs, and tokens per label."""
    cost, models = manifest["cost"], model_figures(manifest)
    by: dict[str, str] = dict.fromkeys(("solutions", "prefixes"), "")
    if len(models) > 1:
        by = {
            "solutions": f" by the generator {models['generator']}",
            "prefixes": f" by the completer {models['completer']}",
        }
    figures = {f"{stage}{by[stage]}, all runs": _stage(cost[stage]) for stage in by}
    for stage in by:
        if rejected := _rejected(cost[stage]):
            figures[f"of the {stage}"] = rejected
    per_label = cost["tokens_per_label"]
    figures["generated tokens per label"] = "none" if per_label is None else f"{per_label:,.1f}"
    last = cost["last_run"]
    figures["this run"] = (
        f"{last['rollouts']:,} rollouts, {last['generated_tokens']:,} generated tokens, "
        f"{last['seconds']:,.1f} s"
    )
    if last["top_up_rollouts"]:
        figures["of this run, topped up"] = (
            f"{last['top_up_rollouts']:,} rollouts, {last['top_up_tokens']:,} generated tokens"
        )
    if manifest["regraded"]:
        figures["graded anew"] = _regraded(manifest["regraded"])
    return figures


def notes(manifest: Mapping[str, Any]) -> list[str]:
    """What the user should know of labels that are missing; empty where none is."""
    counts, last = manifest["counts"], manifest["cost"]["last_run"]
    found: list[str] = []
    if last["budget_met"] and counts["problems_unfinished"]:
        found.append(
            f"The budget was met: {last['rollouts']:,} rollouts and {last['generated_tokens']:,} "
            f"generated tokens in {last['seconds']:,.1f} s. {counts['problems_unfinished']:,} of "
            f"{counts['problems']:,} problems are short of what the policy asks for; run the same "
            "command again to go on with a new budget."
        )
    if counts["steps_without_label"]:
        found.append(
            f"{counts['steps_without_label']:,} of {counts['labeled_steps']:,} steps have no "
            "graded rollout and so no label; training leaves them out."
        )
    return found


def _regraded(summary: Mapping[str, Any]) -> str:
    flips = {
        "verdicts": sum(summary["verdict_flips"].values()),
        "hard labels": sum(summary["label_flips"].values()),
    }
    changed = ", ".join(f"{n:,} {what} flipped" for what, n in flips.items())
    left = summary["rollouts_without_prefix"]
    kept = f"; {left:,} left, whose prefix no solution has" if left else ""
    return f"{summary['rollouts']:,} stored rollouts, {changed}{kept}"


def _stage(cost: Mapping[str, Any]) -> str:
    prompts = f"{cost['prompt_tokens']:,} prompt tokens"
    if cost["cached_prompt_tokens"] is not None:
        prompts += f" ({cost['cached_prompt_tokens']:,} cached)"
    return (
        f"{cost['requests']:,} requests, {prompts}, {cost['generated_tokens']:,} generated, "
        f"{cost['rollouts']:,} rollouts, {cost['seconds']:,.1f} s"
    )


def _rejected(cost: Mapping[str, Any]) -> str:
    named = {
        "undecided rollouts": cost["rollouts_undecided"],
        "truncated rollouts": cost["rollouts_truncated"],
        "re-encoded prefixes": cost["reencoded_prefixes"],
        "clipped requests": cost["clipped_requests"],
    }
    return ", ".join(f"{n:,} {name}" for name, n in named.items() if n)
