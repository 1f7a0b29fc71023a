"""PRM800K: hand-written rows of every kind, and the labelled solutions they give, by hand."""

from collections import Counter

import pytest

from pipeline.records import StepLabel
from storage.formats.foreign import BadRowError, ForeignSolution
from storage.formats.options import ImportOptions, Kept, Neutral
from storage.formats.prm800k import read_row

Completion = dict[str, object]


def rated(text: str, rating: int | None, *, flagged: bool | None = False) -> Completion:
    return {"text": text, "rating": rating, "flagged": flagged}


def step(
    completions: list[Completion] | None, chosen: int | None, human: str | None = None
) -> dict[str, object]:
    own = {"text": human, "rating": None, "source": "human", "flagged": False}
    return {
        "completions": completions,
        "human_completion": None if human is None else own,
        "chosen_completion": chosen,
    }


def row(steps: list[dict[str, object]], finish: str = "solution", **flags: object) -> Completion:
    return {
        "labeler": "340d89bc",
        "timestamp": "2022-07-30T23:23:32.118856",
        "generation": None,
        "is_quality_control_question": False,
        "is_initial_screening_question": False,
        "question": {"problem": "What is 2+2?", "ground_truth_answer": "4"},
        "label": {"total_time": 1000, "finish_reason": finish, "steps": steps},
        **flags,
    }


# phase 1: alternatives at three steps, a human's own step, a null and a neutral rating
PHASE_1 = row(
    [
        step([rated("We add.", 1), rated("We multiply.", -1), rated("Let us see.", 0)], 0),
        step(
            [rated("2+2 is 5.", -1), rated("2+2 is 6.", -1), rated("Hm.", None)], None, "2+2 is 4."
        ),
        step(
            [
                rated("So 4.\n\n# Answer\n\n4", 1),
                rated("So 5.\n\n# Answer\n\n5", -1),
                rated("Nice.", 0),
            ],
            0,
        ),
    ]
)

# phase 2: stops at the first error, where nothing is chosen
PHASE_2 = {
    **row(
        [
            step([rated("First.", 1, flagged=None)], 0),
            step([rated("Second.", 0, flagged=None)], 0),
            step([rated("Wrong.", -1), rated("Right.", 1), rated("Third.", 0)], None),
        ],
        finish="found_error",
    ),
    "generation": 9,
    "question": {
        "problem": "  What is 20?\n",
        "ground_truth_answer": "40,\\!000",
        "ground_truth_solution": "…",
        "pre_generated_steps": ["First.", "Second.", "Wrong.", "Never judged."],
        "pre_generated_answer": "320,000",
        "pre_generated_verifier_score": 0.01,
    },
}


def signs(solution: ForeignSolution) -> str:
    known = {
        StepLabel(1, 0, 1, 0, 0, 0): "+",
        StepLabel(1, 0, 0, 1, 0, 0): "-",
        StepLabel(0, 0, 0, 0, 0, 0): "?",
    }
    return "".join(known[label] for label in solution.labels)


def read(content: Completion, **options: object) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    counts: Counter[str] = Counter()
    solutions = list(read_row(content, ImportOptions.model_validate(options), counts))
    return [(list(s.steps), signs(s), s.final_answer) for s in solutions], dict(counts)


def test_phase_1_alternatives_follow_the_path_and_are_never_multiplied() -> None:
    solutions, counts = read(PHASE_1)
    assert solutions == [
        (["We multiply."], "-", ""),
        (["Let us see."], "+", ""),
        (["We add.", "\n2+2 is 5."], "+-", ""),
        (["We add.", "\n2+2 is 6."], "+-", ""),
        (["We add.", "\n2+2 is 4.", "\nSo 5.\n\n# Answer\n\n5"], "+?-", "5"),
        (["We add.", "\n2+2 is 4.", "\nNice."], "+?+", ""),
        (["We add.", "\n2+2 is 4.", "\nSo 4.\n\n# Answer\n\n4"], "+?+", "4"),
    ]
    assert counts == {
        "alternatives kept": 6,
        "alternatives dropped: no rating": 1,
        "steps of a path without label: written by a human": 1,
    }


def test_phase_2_stops_at_the_first_error_whose_alternatives_hold_the_path() -> None:
    solutions, counts = read(PHASE_2)
    assert solutions == [
        (["First.", "\nSecond.", "\nWrong."], "++-", ""),
        (["First.", "\nSecond.", "\nRight."], "+++", ""),
        (["First.", "\nSecond.", "\nThird."], "+++", ""),
    ]
    assert counts == {"alternatives kept": 3}
    (first, *_) = read_row(PHASE_2, ImportOptions(), Counter())
    assert (first.question, first.gold_answer) == ("What is 20?", "40,\\!000")
    assert first.verdict is None


def test_neutral_as_incorrect_and_as_no_label() -> None:
    incorrect, _ = read(PHASE_2, neutral=Neutral.INCORRECT)
    assert [labels for _, labels, _ in incorrect] == ["+--", "+-+", "+--"]
    dropped, counts = read(PHASE_2, neutral=Neutral.DROP)
    assert dropped == [
        (["First.", "\nSecond.", "\nWrong."], "+?-", ""),
        (["First.", "\nSecond.", "\nRight."], "+?+", ""),
    ]
    assert counts == {
        "alternatives kept": 2,
        "alternatives dropped: neutral": 1,
        "steps of a path without label: neutral": 1,
    }


def test_flagged_steps_have_no_label_unless_kept() -> None:
    content = row(
        [
            step([rated("One.", 1, flagged=True), rated("Uno.", -1, flagged=True)], 0),
            step([rated("Two.", -1)], 0),
        ]
    )
    assert read(content) == (
        [(["One.", "\nTwo."], "?-", "")],
        {"alternatives dropped: flagged": 1, "steps of a path without label: flagged": 1},
    )
    assert read(content, keep=(Kept.FLAGGED,)) == (
        [(["Uno."], "-", ""), (["One.", "\nTwo."], "+-", "")],
        {"alternatives kept": 1},
    )


@pytest.mark.parametrize(
    ("kept", "flags"),
    [
        (Kept.QUALITY_CONTROL, {"is_quality_control_question": True}),
        (Kept.SCREENING, {"is_initial_screening_question": True, "generation": -1}),
        (Kept.GIVE_UP, {"finish": "give_up"}),
        (Kept.BAD_PROBLEM, {"finish": "bad_problem"}),
    ],
)
def test_rows_are_left_out_by_flag_and_reason(kept: Kept, flags: dict[str, object]) -> None:
    content = row([step([rated("One.", 1)], 0)], **flags)  # type: ignore[arg-type]
    assert read(content) == ([], {f"rows dropped: {kept}": 1})
    assert read(content, keep=(kept,)) == ([(["One."], "+", "")], {})
    others = tuple(one for one in Kept if one is not kept)
    assert read(content, keep=others)[0] == []


def test_a_null_is_never_a_label() -> None:
    nothing = row([step([rated("One.", None)], 0), step(None, None, "Own."), step(None, None)])
    assert read(nothing) == (
        [],
        {
            "steps of a path without label: no rating": 1,
            "steps of a path without label: written by a human": 1,
            "rows dropped: no label": 1,
        },
    )
    between = row([step([rated("One.", None)], 0), step([rated("Two.", 1)], 0), step([], None)])
    assert read(between)[0] == [(["One.", "\nTwo."], "?+", "")]


def test_the_path_ends_where_nothing_was_chosen() -> None:
    content = row(
        [
            step([rated("One.", 1)], 0),
            step([rated("Two.", None), rated(" ", -1)], None),
            step([rated("Three.", -1)], 0),
        ],
        finish="give_up",
    )
    assert read(content, keep=(Kept.GIVE_UP,)) == (
        [(["One."], "+", "")],
        {
            "alternatives dropped: no rating": 1,
            "alternatives dropped: empty text": 1,
            "steps dropped: after one where nothing was chosen": 1,
        },
    )


def test_a_chosen_completion_goes_before_a_human_one() -> None:
    content = row([step([rated("One.", -1)], 0, "Own."), step([rated("Two.", 1)], 0)])
    assert read(content) == (
        [(["One.", "\nTwo."], "-+", "")],
        {"human completions dropped: another was chosen": 1},
    )


def test_white_space_at_a_texts_end_begins_the_next_step() -> None:
    content = row(
        [
            step([rated("One. \n", 1)], 0),
            step([rated(" Two.  ", 1), rated("Due.  ", -1)], 0),
            step([rated("Three. ", 1)], 0),
        ]
    )
    alternative, path = (steps for steps, _, _ in read(content)[0])
    assert alternative == ["One.", " \n\nDue.  "]
    assert path == ["One.", " \n\n Two.", "  \nThree. "]
    assert "".join(path) == "One. \n\n Two.  \nThree. "


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So.\n\n# Answer\n\n\\frac{1}{2}", "\\frac{1}{2}"),
        ("# Answer\n\n7", "7"),
        ("So.\n\n# Answer\n\n1\n\n# Answer\n\n 2 ", "2"),
        ("The C# Answer\n\n7", ""),
        ("So.\n\n# Answer 7", ""),
    ],
)
def test_the_final_answer(text: str, answer: str) -> None:
    assert read(row([step([rated(text, 1)], 0)]))[0] == [([text], "+", answer)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "no 'question'"),
        ({**PHASE_1, "label": None}, "'label' is None, not an object"),
        ({**PHASE_1, "question": {"problem": 7}}, "'problem' is 7, not a text"),
        ({**PHASE_1, "is_quality_control_question": "no"}, "'no', not true or false"),
        (row([], finish="tired"), "'finish_reason' is 'tired'"),
        (row([step([rated("One.", 2)], 0)]), "a rating of step 0 is 2"),
        (row([step([rated("One.", True)], 0)]), "a rating of step 0 is True"),
        (row([step([rated("One.", 1)], 1)]), "'chosen_completion' is 1"),
        (row([step([rated("", 1)], 0)]), "the chosen text of step 0 is empty"),
        (row([step([{"text": "One."}], 0)]), "no 'rating'"),
        (row([step([{"text": None, "rating": 1}], 0)]), "a text of step 0 is None"),
        (row([step(["One."], 0)]), "completion 0 of step 0 is 'One.', not an object"),  # type: ignore[list-item]
        ({**PHASE_1, "question": {"problem": "?", "ground_truth_answer": 4}}, "is 4, not a text"),
    ],
)
def test_a_malformed_row_is_refused_with_what_is_wrong(content: Completion, words: str) -> None:
    with pytest.raises(BadRowError) as caught:
        read(content)
    assert words in str(caught.value)
