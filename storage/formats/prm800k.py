r"""PRM800K (`phase{1,2}_{train,test}.jsonl`, arXiv 2305.20050): read.

    labeler, timestamp, generation (null in phase 1)
    is_quality_control_question, is_initial_screening_question: bool
    question { problem, ground_truth_answer, in phase 2 more }
    label { finish_reason: found_error|solution|bad_problem|give_up,
            steps [ { completions: [ {text, rating: -1|0|1|null, flagged: bool|null} ] | null,
                      human_completion: {text, rating: null, …} | null,
                      chosen_completion: int | null } ] }

The *path* is the chosen completion, or the human one, of step after step. The other completions
of a step are its *alternatives*: they share the path before them and nothing after. A row gives
one solution an alternative, which ends with it, and one for the path, unless an alternative's
has the whole path in it; so no text is made of steps that never stood together.

A rating of null is no label, nor is a human's own text judged. The text that ends a solution
holds `\n\n# Answer\n\nX`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storage.formats.foreign import (
    BadRowError,
    ForeignSolution,
    Row,
    flag_in,
    index_in,
    joined_steps,
    judged,
    list_in,
    required,
    row_in,
    shown,
    text_in,
)
from storage.formats.options import ImportOptions, Kept, Neutral

_ANSWER = "# Answer\n\n"
_REASONS = ("found_error", "solution", "bad_problem", "give_up")


@dataclass(frozen=True, slots=True)
class _Judged:
    """A completion's text and what is known of it; `why` says why that is nothing."""

    text: str
    is_correct: bool | None
    why: str = ""


def read_row(row: Row, options: ImportOptions, counts: Counter[str]) -> Iterator[ForeignSolution]:
    """The labelled solutions of a row, in the order of its steps, the path last.

    A row that is left out gives none. Raises BadRowError.
    """
    question = row_in(required(row, "question"), "'question'")
    label = row_in(required(row, "label"), "'label'")
    why = _left_out(row, label, options)
    if why is not None:
        counts[f"rows dropped: {why}"] += 1
        return
    problem, gold = text_in(question, "problem").strip(), _gold_answer(question)
    solutions = list(_solutions(list_in(label, "steps"), options, counts))
    if not solutions:
        counts["rows dropped: no label"] += 1
    for judgements in solutions:
        steps = joined_steps([one.text for one in judgements], "\n")
        yield ForeignSolution(
            question=problem,
            steps=steps,
            labels=tuple(judged(one.is_correct) for one in judgements),
            final_answer=_final_answer(judgements[-1].text),
            verdict=None,
            gold_answer=gold,
        )


def _left_out(row: Row, label: Row, options: ImportOptions) -> str | None:
    reason = required(label, "finish_reason")
    if reason not in _REASONS:
        raise BadRowError(f"'finish_reason' is {shown(reason)}, none of {', '.join(_REASONS)}")
    found = {
        Kept.QUALITY_CONTROL: flag_in(row, "is_quality_control_question"),
        Kept.SCREENING: flag_in(row, "is_initial_screening_question"),
        Kept.GIVE_UP: reason == "give_up",
        Kept.BAD_PROBLEM: reason == "bad_problem",
    }
    return next((kept for kept, is_so in found.items() if is_so and kept not in options.keep), None)


def _solutions(
    listed: list[object], options: ImportOptions, counts: Counter[str]
) -> Iterator[list[_Judged]]:
    path: list[_Judged] = []
    goes_on_in_alternative = False
    for index, step in enumerate(listed):
        completions, human, chosen = _step(row_in(step, f"step {index}"), index, options)
        going_on = human if chosen is None else completions[chosen]
        goes_on_in_alternative = False
        for number, alternative in enumerate(completions):
            if number == chosen:
                continue
            if alternative.is_correct is None:
                counts[f"alternatives dropped: {alternative.why}"] += 1
            else:
                counts["alternatives kept"] += 1
                goes_on_in_alternative = True
                yield [*path, alternative]
        if human is not None and chosen is not None:
            counts["human completions dropped: another was chosen"] += 1
        if going_on is None:
            if index + 1 < len(listed):
                counts["steps dropped: after one where nothing was chosen"] += (
                    len(listed) - index - 1
                )
            break
        if not going_on.text.strip():
            raise BadRowError(f"the chosen text of step {index} is empty")
        if going_on.is_correct is None:
            counts[f"steps of a path without label: {going_on.why}"] += 1
        path.append(going_on)
        goes_on_in_alternative = False
    if any(one.is_correct is not None for one in path) and not goes_on_in_alternative:
        yield path


def _step(
    step: Row, index: int, options: ImportOptions
) -> tuple[list[_Judged], _Judged | None, int | None]:
    """The completions, the human one, and the index of the chosen one."""
    listed = [] if step.get("completions") is None else list_in(step, "completions")
    completions = [
        _judged(row_in(one, f"completion {number} of step {index}"), index, options)
        for number, one in enumerate(listed)
    ]
    own = step.get("human_completion")
    human = None
    if own is not None:
        text = text_in(row_in(own, f"'human_completion' of step {index}"), "text")
        human = _Judged(text, None, "written by a human")
    if step.get("chosen_completion") is None:
        return completions, human, None
    return completions, human, index_in(step, "chosen_completion", low=0, high=len(completions))


def _judged(completion: Row, index: int, options: ImportOptions) -> _Judged:
    text, rating = required(completion, "text"), required(completion, "rating")
    if not isinstance(text, str):
        raise BadRowError(f"a text of step {index} is {shown(text)}")
    if isinstance(rating, bool) or rating not in (-1, 0, 1, None):
        raise BadRowError(f"a rating of step {index} is {shown(rating)}, not -1, 0, 1 or null")
    if not text.strip():
        return _Judged(text, None, "empty text")
    if completion.get("flagged") is True and Kept.FLAGGED not in options.keep:
        return _Judged(text, None, "flagged")
    if rating is None:
        return _Judged(text, None, "no rating")
    if rating != 0:
        return _Judged(text, rating == 1)
    if options.neutral is Neutral.DROP:
        return _Judged(text, None, "neutral")
    return _Judged(text, options.neutral is Neutral.CORRECT)


def _gold_answer(question: Mapping[str, object]) -> str:
    gold = question.get("ground_truth_answer")
    if gold is not None and not isinstance(gold, str):
        raise BadRowError(f"'ground_truth_answer' is {shown(gold)}, not a text")
    return gold or ""


def _final_answer(text: str) -> str:
    before, marker, answer = text.rpartition(_ANSWER)
    is_there = marker and (not before or before.endswith("\n"))
    return answer.strip() if is_there else ""
