"""What a run cost, in words: from the manifest, for the end summary and Prefect's pages."""

from collections.abc import Mapping
from typing import Any


def cost_figures(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Requests, tokens and rollouts of both stages over all runs, and tokens per label."""
    cost = manifest["cost"]
    figures = {f"{stage}, all runs": _stage(cost[stage]) for stage in ("solutions", "prefixes")}
    for stage in ("solutions", "prefixes"):
        if rejected := _rejected(cost[stage]):
            figures[f"of the {stage}"] = rejected
    per_label = cost["tokens_per_label"]
    figures["generated tokens per label"] = "none" if per_label is None else f"{per_label:,.1f}"
    last = cost["last_run"]
    figures["this run"] = (
        f"{last['rollouts']:,} rollouts, {last['generated_tokens']:,} generated tokens, "
        f"{last['seconds']:,.1f} s"
    )
    return figures


def notes(manifest: Mapping[str, Any]) -> list[str]:
    """What the user should know of labels that are missing; empty where none is."""
    counts, last = manifest["counts"], manifest["cost"]["last_run"]
    found: list[str] = []
    if last["budget_met"]:
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
