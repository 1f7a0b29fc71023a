"""The embedded engine on a tiny random Llama: seeds, company, stops, limits, distributions."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM

from pipeline.config import EngineConfig, EngineKind, ModelConfig, ModelDtype, SamplingConfig
from pipeline.errors import ConfigError, EngineError
from pipeline.records import FinishReason
from pipeline.samplers.sampler import Completion, Sampler, SamplingRequest
from pipeline.samplers.transformers_engine import _load_model, open_transformers_engine
from tests.tiny_models import byte_tokenizer, metaspace_tokenizer, save_tiny_llama

ENGINE = EngineConfig(kind=EngineKind.TRANSFORMERS, num_threads=1, max_num_seqs=64)
TOKENIZER = byte_tokenizer()
PROMPT = "Question: Mia has 3 eggs.\nAnswer:"
LONG_PROMPT = "Then.\n\n" * 12 + PROMPT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("llama"), TOKENIZER)


def request(
    prompt: str = PROMPT, num: int = 1, seed: int = 0, *, max_tokens: int = 12, **settings: Any
) -> SamplingRequest:
    ids = tuple(TOKENIZER(prompt, add_special_tokens=False)["input_ids"])
    return SamplingRequest(
        prompt, ids, num, seed, SamplingConfig(max_tokens=max_tokens, **settings)
    )


def serve(
    folder: Path, work: Callable[[Sampler], Awaitable[Any]], engine: EngineConfig = ENGINE
) -> Any:
    async def run() -> Any:
        async with open_transformers_engine(ModelConfig(name=str(folder)), engine) as sampler:
            return await work(sampler)

    return asyncio.run(run())


def draw(folder: Path, *requests: SamplingRequest, **engine: Any) -> list[list[Completion]]:
    async def work(sampler: Sampler) -> list[list[Completion]]:
        return list(await asyncio.gather(*(sampler.sample(one) for one in requests)))

    return serve(folder, work, ENGINE.model_copy(update=engine))


def logits_after(folder: Path, prompt: str = PROMPT) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = TOKENIZER(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return model(ids).logits[0, -1].double()


def test_samples_come_in_the_order_of_their_seeds(folder: Path) -> None:
    (many,), (one,), (again,) = (
        draw(folder, request(num=4, seed=100)),
        draw(folder, request(seed=102)),
        draw(folder, request(num=4, seed=100)),
    )
    assert len({sample.text for sample in many}) == 4
    assert many[2] == one[0]
    assert many == again


def test_company_changes_no_sample(folder: Path) -> None:
    ((alone,),) = draw(folder, request(seed=5))
    others = [request(LONG_PROMPT, 3, 77), request("Mia", 2, 5), request(seed=6)]
    _, _, _, (among,) = draw(folder, *others, request(seed=5))
    assert among == alone


@pytest.mark.parametrize("settings", [{"max_tokens": 200}, {"repetition_penalty": 1.7}])
def test_neither_limits_nor_padding_of_the_company_change_a_sample(
    folder: Path, settings: dict[str, Any]
) -> None:
    short = request("Mia", num=32, seed=5, **settings)
    (alone,) = draw(folder, short)
    among, long = draw(folder, short, request(LONG_PROMPT, seed=9, **settings))
    assert among == alone
    assert long == draw(folder, request(LONG_PROMPT, seed=9, **settings))[0]


def test_requests_beyond_the_batch_size_are_split(folder: Path) -> None:
    (whole,) = draw(folder, request(num=10, seed=3))
    (parts,) = draw(folder, request(num=10, seed=3), max_num_seqs=4)
    assert parts == whole


def test_max_tokens_ends_with_length_and_the_end_token_with_stop(folder: Path) -> None:
    (samples,) = draw(folder, request(num=64, max_tokens=30))
    ended = Counter(sample.finish_reason for sample in samples)
    assert ended[FinishReason.STOP] > 3
    assert ended[FinishReason.LENGTH] > 3
    for sample in samples:
        assert "<|end|>" not in sample.text
        if sample.finish_reason is FinishReason.LENGTH:
            assert sample.num_tokens == 30
        else:
            assert 1 <= sample.num_tokens <= 30
    # the same seeds with more room begin with the same text
    (longer,) = draw(folder, request(num=64, max_tokens=60))
    for short, long in zip(samples, longer, strict=True):
        if short.finish_reason is FinishReason.STOP:
            assert long == short
        else:
            assert long.text.startswith(short.text.rstrip("�"))


def test_stop_strings_end_before_themselves(folder: Path) -> None:
    plain = draw(folder, request(num=64, max_tokens=40))[0]
    stop = ("e", ".\n")
    stopped = draw(folder, request(num=64, max_tokens=40, stop=stop))[0]
    num_cut = 0
    for whole, cut in zip(plain, stopped, strict=True):
        at = min((whole.text.find(one) for one in stop if one in whole.text), default=-1)
        if at < 0:
            assert cut == whole
            continue
        num_cut += 1
        assert cut.text == whole.text[:at]
        assert cut.stopped_at is not None
        assert whole.text.startswith(cut.stopped_at, at)
        assert cut.finish_reason is FinishReason.STOP
        assert 1 <= cut.num_tokens <= whole.num_tokens
    assert num_cut > 10


def test_a_stop_string_that_begins_in_the_prompt_does_not_count(folder: Path) -> None:
    plain = draw(folder, request("a:", num=64, max_tokens=6))[0]
    stopped = draw(folder, request("a:", num=64, max_tokens=6, stop=(":" + plain[0].text[:1],)))[0]
    assert stopped[0] == plain[0]


def test_stop_token_counts_leave_padding_out(folder: Path) -> None:
    stop = draw(folder, request(seed=1, max_tokens=4))[0][0].text[-1]
    samples = draw(folder, request(seed=1, num=8, max_tokens=30, stop=(stop,)))[0]
    assert samples[0].num_tokens <= 4
    assert max(sample.num_tokens for sample in samples) > samples[0].num_tokens


def test_prompts_that_fill_the_context_are_cut_off_at_once(folder: Path) -> None:
    with pytest.raises(EngineError, match="without a token"):
        draw(folder, replace(request(), prompt_ids=()))
    for num_ids in (128, 500):
        (samples,) = draw(folder, replace(request(num=3), prompt_ids=(5,) * num_ids))
        assert samples == [Completion("", FinishReason.LENGTH, 0)] * 3
    (samples,) = draw(folder, replace(request(max_tokens=9), prompt_ids=(5,) * 127))
    assert samples[0].num_tokens == 1
    (samples,) = draw(folder, replace(request(max_tokens=9), prompt_ids=(5,)))
    assert 1 <= samples[0].num_tokens <= 9


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 1}, {"min_p": 1.0}, {"top_p": 1e-9}, {"temperature": 1e-4}],
)
def test_extreme_settings_are_greedy(folder: Path, settings: dict[str, Any]) -> None:
    (samples,) = draw(folder, request(num=5, max_tokens=8, **settings))
    assert len({sample.text for sample in samples}) == 1
    best = int(logits_after(folder).argmax())
    assert samples[0].text.startswith(TOKENIZER.decode([best]).rstrip("�"))


def expected_shares(logits: torch.Tensor, settings: dict[str, float]) -> torch.Tensor:
    shares = torch.softmax(logits / settings.get("temperature", 1.0), -1)
    if "top_k" in settings:
        shares[shares < shares.topk(int(settings["top_k"])).values[-1]] = 0
    if "min_p" in settings:
        shares[shares < settings["min_p"] * shares.max()] = 0
    if "top_p" in settings:
        ordered, order = shares.sort(descending=True)
        shares[order[ordered.cumsum(-1) - ordered >= settings["top_p"]]] = 0
    return shares / shares.sum()


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.2, "temperature": 1.5}],
)
def test_first_tokens_are_drawn_from_the_softmax(folder: Path, settings: dict[str, Any]) -> None:
    num = 4000
    (samples,) = draw(folder, request(num=num, max_tokens=1, **settings), max_num_seqs=num)
    shares = expected_shares(logits_after(folder), settings)
    wanted: Counter[str] = Counter()
    for token_id, share in enumerate(shares.tolist()):
        ended = token_id == TOKENIZER.eos_token_id
        wanted["" if ended else TOKENIZER.decode([token_id], skip_special_tokens=True)] += share
    found = Counter(sample.text for sample in samples)
    assert all(wanted[text] > 0 for text in found)
    distance = sum(abs(found[text] / num - share) for text, share in wanted.items()) / 2
    noise = sum((share * (1 - share) / num) ** 0.5 for share in wanted.values() if share > 0)
    assert distance < noise  # the mean distance is 0.4 times the sum of standard deviations


def test_a_repetition_penalty_lowers_seen_tokens(folder: Path) -> None:
    def share_of_seen(**settings: Any) -> float:
        (samples,) = draw(folder, request(num=400, max_tokens=1, **settings), max_num_seqs=400)
        return sum(bool(one.text) and one.text in PROMPT for one in samples) / 400

    assert share_of_seen(repetition_penalty=5.0) < 0.5 * share_of_seen()


def test_the_models_own_generation_defaults_do_not_join_in(folder: Path, tmp_path: Path) -> None:
    other = save_tiny_llama(
        tmp_path,
        TOKENIZER,
        repetition_penalty=3.0,
        no_repeat_ngram_size=1,
        suppress_tokens=list(range(5, 200)),
        top_k=1,
        temperature=0.1,
        do_sample=True,
    )
    assert draw(other, request(num=16)) == draw(folder, request(num=16))


def test_white_space_before_the_first_word_is_kept(tmp_path: Path) -> None:
    tokenizer = metaspace_tokenizer()
    save_tiny_llama(tmp_path, tokenizer)
    ids = tuple(tokenizer("Mia has", add_special_tokens=False)["input_ids"])
    sampling = SamplingConfig(max_tokens=1)
    (samples,) = draw(tmp_path, SamplingRequest("", ids, 300, 0, sampling), max_num_seqs=300)
    assert any(sample.text.startswith(" ") and sample.text.strip() for sample in samples)


def test_a_failing_batch_does_not_poison_later_ones(folder: Path) -> None:
    async def work(sampler: Sampler) -> list[Completion]:
        broken = replace(request(), prompt_ids=(10**6,))  # no such token
        with pytest.raises(EngineError, match="the transformers engine failed: "):
            await sampler.sample(broken)
        return await sampler.sample(request(seed=5))

    assert serve(folder, work) == draw(folder, request(seed=5))[0]


def test_a_cancelled_request_ends_and_leaves_the_engine_usable(folder: Path) -> None:
    async def work(sampler: Sampler) -> list[Completion]:
        tasks = [
            asyncio.create_task(sampler.sample(request(seed=seed, max_tokens=90)))
            for seed in range(3)
        ]
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(sampler.sample(request("Mia", seed=4)))
        await asyncio.sleep(0)
        for task in (*tasks, waiting):
            task.cancel()
        ended = await asyncio.gather(*tasks, waiting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)
        return await sampler.sample(request(seed=5))

    assert serve(folder, work) == draw(folder, request(seed=5))[0]


def test_leaving_the_block_ends_what_is_under_way(folder: Path) -> None:
    async def run() -> None:
        async with open_transformers_engine(ModelConfig(name=str(folder)), ENGINE) as sampler:
            under_way = asyncio.create_task(sampler.sample(request(num=64, max_tokens=90)))
            queued = asyncio.create_task(sampler.sample(request("Mia", num=64, max_tokens=90)))
            await asyncio.sleep(0.02)
        ended = await asyncio.wait_for(
            asyncio.gather(under_way, queued, return_exceptions=True), timeout=20
        )
        assert all(isinstance(one, EngineError) for one in ended)
        with pytest.raises(EngineError, match="was closed"):
            await asyncio.wait_for(sampler.sample(request()), timeout=20)

    asyncio.run(run())


def test_broken_weights_are_an_error_not_rubbish(tmp_path: Path) -> None:
    save_tiny_llama(tmp_path, TOKENIZER)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    model.save_pretrained(tmp_path)
    with pytest.raises(EngineError, match="logits are not finite"):
        draw(tmp_path, request())


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json; give the folder"):
        draw(tmp_path, request())


def test_damaged_weights_are_a_config_error(tmp_path: Path) -> None:
    save_tiny_llama(tmp_path, TOKENIZER)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ConfigError, match=r"model\.name = .* cannot be loaded: .*get them again"):
        draw(tmp_path, request())


def test_weights_come_in_the_dtype_asked_for(folder: Path) -> None:
    for dtype in ModelDtype:
        model = _load_model(ModelConfig(name=str(folder), dtype=dtype))
        wanted = "float32" if dtype is ModelDtype.AUTO else dtype
        assert str(model.dtype) == f"torch.{wanted}"


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (ModelConfig, "dtype", "foo"),
        (SamplingConfig, "max_tokens", 10**12),
        (EngineConfig, "num_threads", 10**6),
        (EngineConfig, "max_num_seqs", 10**9),
        (EngineConfig, "max_model_len", 10**12),
        (EngineConfig, "max_restarts", 10**6),
    ],
)
def test_values_that_no_machine_has_are_refused(config: Any, key: str, value: object) -> None:
    with pytest.raises(ValidationError, match=key):
        config(**{key: value})
