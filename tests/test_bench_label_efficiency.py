"""The replay bench: its pool is what it says, and the default meets the required figures."""

import pytest

from bench.label_efficiency import ROOT, Bench
from bench.label_figures import BANDS
from bench.label_pool import POOL_SIZE, PooledProblem, Truth, read_pool, truth_of
from bench.label_replay import Stream, replay
from labeling.policies.config import AllocationConfig, AllocationPolicy

Pool = list[PooledProblem]


@pytest.fixture(scope="module")
def pool() -> Pool:
    return read_pool(ROOT / "bench/data/label_pool.parquet")


@pytest.fixture(scope="module")
def truth(pool: Pool) -> Truth:
    return truth_of(pool)


def test_every_prefix_has_its_rollouts(pool: Pool, truth: Truth) -> None:
    assert len(set(truth.prefix_ids)) == len(truth.prefix_ids) >= 300
    assert {len(own) for one in pool for own in one.rollouts.values()} == {POOL_SIZE}
    assert set(truth.prefix_ids) == {key for one in pool for key in one.rollouts}
    assert truth.multiplicity.sum() == sum(
        len(solution.nodes) for one in pool for solution in one.tree().solutions
    )
    assert abs(truth.own - truth.pooled).max() < 0.1


def test_a_stream_repeats_itself_and_no_other(pool: Pool) -> None:
    config = AllocationConfig(policy=AllocationPolicy.FIXED, reuse=False)
    one, same, other = (replay(pool[:5], config, Stream(pool, seed)) for seed in (1, 1, 2))
    assert one.labels == same.labels != other.labels
    assert (one.num_fresh == 16).all()
    shorter = replay(pool[:5], config.model_copy(update={"num_rollouts": 4}), Stream(pool, 1))
    assert (shorter.num_correct <= one.num_correct).all()  # its rollouts are the first of those


def test_the_default_meets_the_required_figures(pool: Pool, truth: Truth) -> None:
    bench = Bench(pool, truth, 6)
    found = bench.figures(bench.run("default", AllocationConfig()))
    whole = found["all"]
    assert whole["tokens_ratio"] <= 0.2
    assert whole["rmse_ratio"] <= 1.03  # 0.955 over 40 seeds; of six the error is larger
    assert 0.93 <= whole["coverage_wilson"] <= 0.98
    assert abs(whole["bias"]) < 0.01
    assert sum(found[band]["labels"] for band in BANDS[1:]) == whole["labels"]
    again = bench.figures(bench.baseline)["all"]
    assert (again["tokens_ratio"], again["rmse_ratio"], again["agreement_same_seeds"]) == (1, 1, 1)
    assert 0.9 < again["agreement_other_seeds"] < 0.97
    errors = bench.first_error()["first-error, reuse"]
    assert errors["rollouts / fixed 16, textbook"] <= 0.28
    assert errors["same as truth"] > 0.6
