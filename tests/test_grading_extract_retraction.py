"""Answers that a text takes back, corrects, names as wrong or changes by words."""

import pytest

from grading.extract import extract_answer

KEPT = [
    (r"Wait, let me check ... yes. \boxed{7}", "7"),
    (r"\boxed{7}. Wait, let me check: 3+4=7. Yes.", "7"),
    (r"\boxed{7}? Yes.", "7"),
    (r"It might be 8? No. It is \boxed{7}.", "7"),
    (r"We can rule out 8, so \boxed{7}.", "7"),
    (r"The wrong answer 8 comes from a sign; the right one is \boxed{7}.", "7"),
    (r"We avoid the wrong answer and get \boxed{7}.", "7"),
    (r"\boxed{7}. A common mistake is to answer 8.", "7"),
    (r"\boxed{7} works, while 8 does not work.", "7"),
    (r"\boxed{7}, which is not 8.", "7"),
    ("The answer is 7 because 3+4=7.", "7"),
    ("The answer is 7. Actually, 7 is also the number of days.", "7"),
    ("The answer is 7. No other values work.", "7"),
    ("The answer is 7. This does not work for n=3.", "7"),
    ("So x = 7 (we reject x = -3).", "7"),
    ("So it is 7. If it were 8, we would have a contradiction.", "7"),
    ("Thus 2x = 14 and x = 7.", "7"),
    ("so 7 apples", "7"),
    ("Half of 14 is 7.", "7"),
    ("He has 7 more than Ann.", "7"),
    ("Answer: 7 (not 8)", "7"),
]
TAKEN_BACK = [
    (r"\boxed{7}? No.", ""),
    (r"\boxed{7} does not work.", ""),
    (r"\boxed{7} is extraneous.", ""),
    (r"Is it \boxed{7}? No, since 7 is odd.", ""),
    (r"We can rule out $\boxed{7}$.", ""),
    (r"The wrong answer is \boxed{7}.", ""),
    (r"A common mistake gives \boxed{7}.", ""),
    (r"One might wrongly say \boxed{7}.", ""),
    (r"The answer is \boxed{8}, while the usual wrong answer is \boxed{7}.", "8"),
    (r"\boxed{7}. No wait, it's 8.", "8"),
    ("The answer is 7. No wait, it's 8.", "8"),
    ("The answer is 7. Actually, 8.", "8"),
    ("The answer is 7. Correction: 8.", "8"),
    ("The incorrect answer is 7.", ""),
    ("We can rule out 7", ""),
    ("We eliminate 7.", ""),
    ("So 7 cannot be the answer.", ""),
    ("If it were 7, we would have a contradiction.", ""),
    ("Suppose it were 7. Contradiction.", ""),
    ("Final answer: 7? or 8?", "7 or 8"),
    ("#### 7 (or 8)", "7 or 8"),
    ("#### 7 (maybe 8)", "7 or 8"),
]
CHANGED = [
    ("The answer is negative 7.", "-7"),
    ("x equals minus 7", "-7"),
    ("#### minus 7", "-7"),
    ("#### - 7", "-7"),
    ("The answer is half of 7.", "half of 7"),
    ("The answer is the square root of 7.", "the square root of 7"),
    ("The answer is 7 less than 12.", "7 less than 12"),
    ("The answer is the 7th prime", "the 7th prime"),
    ("The answer is anything but 7", "anything but 7"),
    ("The answer is 7 dollars fifty", "7 dollars fifty"),
    ("#### 7 remainder 2", "7 remainder 2"),
    ("So the total is twice 7.", "twice 7"),
    ("So the total is 7 plus 6.", "7 plus 6"),
    ("So we get 7 tenths.", "7 tenths"),
    ("So she has 7 million dollars.", "7 million"),
]
FOREIGN = [
    ("\\boxed{8}\n\nUser: what is 3+4?\nAssistant: \\boxed{7}", "8"),
    ("So he has 8.\n\nHuman: and 3+4?\n\nAssistant: The answer is 7.", "8"),
    ("User: what is 3+4?\nAssistant: It is \\boxed{7}.", "7"),
    ("The answer is 8.\nQuestion: 3+4?\nAnswer: 7", "8"),
    ("\\boxed{8} % \\boxed{7}", "8"),
    ("\\boxed{8}\n% \\boxed{7}", "8"),
    ("which is 50 % of \\boxed{7}", "7"),
]


@pytest.mark.parametrize(("text", "answer"), [*KEPT, *TAKEN_BACK, *CHANGED, *FOREIGN])
def test_answers(text: str, answer: str) -> None:
    assert extract_answer(text).answer == answer
