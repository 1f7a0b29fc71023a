"""The benchmark of packing counts the tokens of solutions, the same in every way."""

from typing import Any

from bench.packing import WAYS, encode, figures, make_model, make_tokenizer, tokens_a_second


def rows() -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is {index} and {index}?",
            "solution": "\n".join(["one and one is two"] * (1 + index % 5)),
            "is_correct": index % 2 == 0,
        }
        for index in range(24)
    ]


def test_every_way_trains_on_tokens_of_solutions_only() -> None:
    tokenizer = make_tokenizer(rows())
    solutions = encode(rows(), tokenizer)
    assert [one.num_targets for one in solutions][:5] == [1, 2, 3, 4, 5]
    model = make_model(64, 1)
    rates = {
        name: [tokens_a_second(name, model, solutions, batch_size=4, num_updates=2, seed=0)]
        for name in WAYS
    }
    report = figures(rates, solutions.lengths.tolist(), {})
    assert report["ways"]["padded"]["times_padded"] == 1
    assert set(report["ways"]) == {"padded", "grouped", "packed", "alone"}
    assert report["tokens_a_solution"]["longest"] == max(solutions.lengths)
