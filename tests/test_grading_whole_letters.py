r"""Letters in `gcd`, `lcm` and remainders: whole numbers, save x, y and z."""

import pytest

from grading.divisors import at_whole_numbers
from grading.equivalence import symbolic_scalars
from grading.expression import parse_body
from grading.verdict import Verdict


def verdict_of(first: str, second: str) -> Verdict:
    left, right = parse_body(first), parse_body(second)
    verdict = symbolic_scalars(left, right)
    assert symbolic_scalars(right, left) is verdict
    return verdict


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\gcd(4p,4q)", r"4\gcd(p,q)"),
        (r"\gcd(a,a+b)", r"\gcd(a,b)"),
        (r"\gcd(k,k+10)", r"\gcd(k,10)"),
        (r"\lcm(a,b)\gcd(a,b)", "ab"),
        (r"\gcd(p,q,k)", r"\gcd(\gcd(p,k),q)"),
        (r"7^{\gcd(p,q)}-1", r"7^{\gcd(q,p)}-1"),
        (r"\gcd(x,5y)", "1"),
        (r"\lcm(3x,z)", "3xz"),
    ],
)
def test_equal(first: str, second: str) -> None:
    assert verdict_of(first, second) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\gcd(p,q)", "1"),
        (r"\gcd(p,q)", r"\gcd(p,3q)"),
        (r"\gcd(p+1,q)", r"\gcd(p,q)"),
        (r"\gcd(k,10)", "1"),
        (r"\gcd(k,10)", r"\gcd(k,20)"),
        (r"\gcd(k,35)", r"\gcd(k,385)"),
        (r"3^{\gcd(p,q)}", "3"),
        (r"\lcm(p,q)", "pq"),
        (r"\lcm(k,4)", "4k"),
        (r"p+q-\gcd(p,q)", "p+q-1"),
        (r"k \bmod 3", "k"),
        (r"(k+1) \bmod 3", r"k \bmod 3"),
    ],
)
def test_different(first: str, second: str) -> None:
    assert verdict_of(first, second) is Verdict.INCORRECT


def test_agreement_at_whole_numbers_alone_is_no_refutation() -> None:
    first, second = parse_body(r"k^3 \bmod 2"), parse_body(r"k \bmod 2")
    assert at_whole_numbers(first, second) is Verdict.CORRECT
    assert symbolic_scalars(first, second) is not Verdict.INCORRECT
