import threading

from grading.grade_cache import GradeCache, text_key
from grading.verdict import Grade, Verdict


def grade(answer: str) -> Grade:
    return Grade(Verdict.CORRECT, "text", answer)


def num_known(cache: GradeCache, count: int) -> int:
    return sum(cache.of_answer("g", str(number)) is not None for number in range(count))


def test_remembers_what_was_asked_for_of_late_and_no_more_than_its_size() -> None:
    cache = GradeCache(100)
    for number in range(1000):
        cache.keep_answer("g", str(number), grade(str(number)))
        assert cache.of_answer("g", "0") == grade("0")  # in use all the time
    assert cache.of_answer("g", "999") == grade("999")
    assert cache.of_answer("h", "999") is None
    assert 50 <= num_known(cache, 1000) <= 100


def test_a_size_of_none_remembers_nothing() -> None:
    cache = GradeCache(0)
    cache.keep_answer("g", "1", grade("1"))
    cache.keep_text(KEY, grade("1"))
    assert (cache.of_answer("g", "1"), cache.of_text(KEY)) == (None, None)


def test_long_answers_are_not_kept() -> None:
    cache = GradeCache(100)
    cache.keep_answer("g", "1" * 10_000, grade("1"))
    cache.keep_text(KEY, grade("1" * 10_000))
    assert cache.of_answer("g", "1" * 10_000) is None
    assert cache.of_text(KEY) is None


KEY = text_key("g", "so 1", is_truncated=False)


def undecided(reason: str) -> Grade:
    return Grade(Verdict.UNDECIDED, reason, "1")


def test_a_timeout_is_kept_when_it_came_again_twice() -> None:
    cache = GradeCache(100)
    kept: list[bool] = []
    for _ in range(4):
        cache.keep_answer("g", "1", undecided("timeout"))
        cache.keep_text(KEY, undecided("timeout"))
        kept.append(cache.of_answer("g", "1") is not None)
    assert kept == [False, False, True, True]
    assert cache.of_text(KEY) is None  # known by its answer
    assert cache.of_answer("g", "2") is None


def test_the_death_of_a_worker_is_never_kept() -> None:
    cache = GradeCache(100)
    for _ in range(5):
        cache.keep_answer("g", "1", undecided("worker-died"))
        cache.keep_text(KEY, undecided("worker-died"))
    assert (cache.of_answer("g", "1"), cache.of_text(KEY)) == (None, None)
    cache.keep_answer("g", "1", undecided("unproven"))
    assert cache.of_answer("g", "1") == undecided("unproven")


def test_only_equal_requests_share_a_key() -> None:
    requests = [
        ("1", "23", False), ("12", "3", False), ("1", "23", True), ("", "123", False),
        ("1", "23\udc80", False), ("1 0 1", "23", False), ("1", "0 123", False),
    ]  # fmt: skip
    keys = {text_key(gold, text, is_truncated=cut) for gold, text, cut in requests}
    assert len(keys) == len(requests)
    assert text_key("1", "23", is_truncated=False) in keys


def test_threads_may_share_it() -> None:
    cache = GradeCache(64)
    wrong: list[str] = []

    def work(start: int) -> None:
        for number in range(start, start + 20_000):
            answer = str(number % 500)
            found = cache.of_answer("g", answer)
            if found is None:
                cache.keep_answer("g", answer, grade(answer))
            elif found != grade(answer):
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert num_known(cache, 500) <= 64 + len(threads)
