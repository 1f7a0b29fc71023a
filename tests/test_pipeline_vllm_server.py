"""vLLM's own server under our supervision: the real thing, with a small random model."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from pipeline.config import EngineConfig, EngineKind, ModelConfig, SamplingConfig
from pipeline.errors import EngineError
from pipeline.records import FinishReason
from pipeline.samplers.openai_server import open_openai_servers
from pipeline.samplers.sampler import SEED_SPACE, Completion, SamplingRequest
from pipeline.samplers.supervised_server import SupervisedServer
from pipeline.samplers.vllm_server import SERVED_NAME, open_vllm_server, vllm_available

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
MAX_MODEL_LEN = 128
PARENT = """
import asyncio, sys
from pathlib import Path
from pipeline.config import EngineConfig, ModelConfig
from pipeline.samplers.vllm_server import open_vllm_server

async def main():
    engine = EngineConfig(max_num_seqs=8, max_model_len=64, num_threads=1)
    model = ModelConfig(name=sys.argv[1])
    async with open_vllm_server(model, engine, state_path=Path(sys.argv[2])) as server:
        print(server.process_group, flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Running:
    """The real server that most tests share, and the loop that it lives in."""

    server: SupervisedServer
    runner: asyncio.Runner
    tokenizer: Any
    model_path: Path
    state_path: Path

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def request(
        self, text: str = "3 + 4 = 7. So", *, num_samples: int = 1, seed: int = 5, **sampling: Any
    ) -> SamplingRequest:
        config = SamplingConfig(**({"max_tokens": 24} | sampling))
        return SamplingRequest(text, self.ids(text), num_samples, seed, config)

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text).input_ids)

    def sample(self, **wanted: Any) -> list[Completion]:
        return self.run(self.server.sample(self.request(**wanted)))


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a byte-level tokenizer, and a generation config that would bias it."""
    if not vllm_available(EngineConfig()):
        pytest.skip("vLLM cannot run here: neither the CPU build nor a GPU with the CUDA build")
    path = tmp_path_factory.mktemp("model")
    tokenizer = save_tokenizer(path)
    save_model(path, tokenizer)
    return path


@pytest.fixture(scope="module")
def running(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from transformers import AutoTokenizer

    state_path = tmp_path_factory.mktemp("state") / "engine"
    engine = EngineConfig(max_num_seqs=32, max_model_len=MAX_MODEL_LEN, num_threads=1)
    model = ModelConfig(name=str(model_path))
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        opening = stack.enter_async_context(open_vllm_server(model, engine, state_path=state_path))
        server = runner.run(opening)
        tokenizer = AutoTokenizer.from_pretrained(model_path)
        try:
            yield Running(server, runner, tokenizer, model_path, state_path)
        finally:
            runner.run(stack.aclose())
    assert members(server.process_group) == []


def save_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=458,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentence = "3 + 4 = 7. So Anna has 7 apples and Ben has twice as many.\n#### 14\n"
    tokenizer.train_from_iterator([sentence] * 3, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.save_pretrained(path)
    return fast


def save_model(path: Path, tokenizer: Any) -> None:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    GenerationConfig(
        do_sample=True, top_k=1, repetition_penalty=4.0, eos_token_id=tokenizer.eos_token_id
    ).save_pretrained(path)


def members(group_id: int) -> list[psutil.Process]:
    """The processes of the group that run."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


real = pytest.mark.vllm
patient = pytest.mark.timeout(600)


@real
@patient
def test_child_seeds_follow_the_base(running: Running) -> None:
    base = SEED_SPACE - 1
    four = running.sample(num_samples=4, seed=base)
    assert len({completion.text for completion in four}) == 4
    assert [running.sample(seed=base + index)[0] for index in range(4)] == four
    assert running.sample(num_samples=2, seed=base + 2) == four[2:]


@real
@patient
def test_samples_do_not_depend_on_what_else_is_running(running: Running) -> None:
    texts = [f"{number} + 4 = 7. So" for number in range(24)]
    requests = [running.request(text, num_samples=4, seed=len(text) * 99) for text in texts]

    async def at_once() -> list[list[Completion]]:
        return await asyncio.gather(*(running.server.sample(request) for request in requests))

    alone = [running.run(running.server.sample(request)) for request in requests]
    assert running.run(at_once()) == alone


@real
@patient
def test_the_prompt_is_the_token_ids_and_nothing_biases_the_model(running: Running) -> None:
    """top_k=1 is the argmax of the same weights in transformers, without the penalty that the
    model's generation config asks for.
    """
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(running.model_path, dtype=torch.float32).eval()
    for text in ("3 + 4 = 7. So", "Anna has", "#### 1", "Ben has twice\n"):
        ids = list(running.ids(text))
        num_prompt_tokens = len(ids)
        with torch.no_grad():
            while len(ids) < num_prompt_tokens + 24 and running.tokenizer.eos_token_id not in ids:
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        (greedy,) = running.sample(text=text, top_k=1)
        assert greedy.num_tokens == len(ids) - num_prompt_tokens
        # vLLM holds back bytes at the end that are not a whole character.
        decoded = running.tokenizer.decode(ids[num_prompt_tokens:], skip_special_tokens=True)
        assert decoded.rstrip("\ufffd") == greedy.text.rstrip("\ufffd")


@real
@patient
def test_the_end_token_is_counted_and_not_in_the_text(running: Running) -> None:
    completions = running.sample(num_samples=64, max_tokens=100)
    stopped = [each for each in completions if each.finish_reason is FinishReason.STOP]
    cut = [each for each in completions if each.finish_reason is FinishReason.LENGTH]
    assert len(stopped) >= 5
    assert len(cut) >= 5
    assert {each.num_tokens for each in cut} == {100}
    assert all("<|end|>" not in each.text for each in completions)
    for each in [each for each in stopped if each.num_tokens > 1][:5]:
        seed = 5 + completions.index(each)
        (without_end,) = running.sample(seed=seed, max_tokens=each.num_tokens - 1)
        assert without_end.text == each.text
        assert without_end.finish_reason is FinishReason.LENGTH


@real
@patient
def test_a_stop_string_ends_a_completion_before_it(running: Running) -> None:
    free = running.sample(num_samples=32, max_tokens=100)
    stopped = running.sample(num_samples=32, max_tokens=100, stop=("an", "7"))
    cuts = [cut_at_first(each.text, ("an", "7")) for each in free]
    assert [each.text for each in stopped] == cuts
    has_stop = [cut != each.text for cut, each in zip(cuts, free, strict=True)]
    assert sum(has_stop) >= 3
    for each, is_cut, whole in zip(stopped, has_stop, free, strict=True):
        assert each.finish_reason is (FinishReason.STOP if is_cut else whole.finish_reason)
        assert each.num_tokens < whole.num_tokens if is_cut else each == whole


def cut_at_first(text: str, stops: tuple[str, ...]) -> str:
    ends = [text.find(stop) for stop in stops if stop in text]
    return text[: min(ends)] if ends else text


@real
@patient
def test_a_long_request_is_clipped_and_a_bad_one_fails_alone(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    num_prompt_tokens = len(running.ids("3 + 4 = 7. So"))
    with caplog.at_level(logging.WARNING):
        clipped = running.sample(num_samples=16, max_tokens=1000)
    room = MAX_MODEL_LEN - num_prompt_tokens
    assert max(each.num_tokens for each in clipped) == room
    assert {each.num_tokens for each in clipped if each.finish_reason is FinishReason.LENGTH} == {
        room
    }
    assert running.server.num_clipped_requests >= 1
    assert f"leaves room for {room} of max_tokens=1000" in caplog.text

    async def good_and_bad() -> list[Any]:
        sampling = SamplingConfig(max_tokens=4)
        bad = [SamplingRequest("long", (5,) * MAX_MODEL_LEN, 1, 0, sampling)]
        bad += [SamplingRequest("unknown", (5, 10**6), 1, 0, sampling)]
        calls = [running.server.sample(request) for request in [running.request(), *bad]]
        return await asyncio.gather(*calls, return_exceptions=True)

    good, too_long, unknown = running.run(good_and_bad())
    assert good == running.sample()
    assert too_long == [Completion("", FinishReason.LENGTH, 0)]
    assert isinstance(unknown, EngineError)
    assert "1000000 is out of vocabulary" in str(unknown)
    assert running.server.num_restarts == 0


@real
@patient
def test_a_client_of_the_running_server_gets_the_same(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """engine.kind = openai against a real vLLM: what it asks, checks and gets."""
    process = psutil.Process(running.server.process_group).children()[0]
    monkeypatch.setenv("STEPMARK_TEST_KEY", process.environ()["VLLM_API_KEY"])
    engine = EngineConfig(
        kind=EngineKind.OPENAI,
        urls=(running.server.base_url,),
        api_key_env="STEPMARK_TEST_KEY",
        served_model=SERVED_NAME,
        startup_seconds=20,
    )
    requests = [running.request(f"{i} + 4 = 7. So", num_samples=4, seed=9 * i) for i in range(12)]

    async def through_the_client() -> list[list[Completion]]:
        async with open_openai_servers(ModelConfig(), engine) as sampler:
            return await asyncio.gather(*(sampler.sample(request) for request in requests))

    async def through_the_server() -> list[list[Completion]]:
        return await asyncio.gather(*(running.server.sample(request) for request in requests))

    assert running.run(through_the_client()) == running.run(through_the_server())


@real
@patient
def test_other_local_users_are_kept_out(running: Running) -> None:
    addresses = {
        connection.laddr.ip
        for process in members(running.server.process_group)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}
    models = f"{running.server.base_url}/v1/models"
    assert httpx.get(models, trust_env=False).status_code == 401
    commands = [" ".join(each.cmdline()) for each in members(running.server.process_group)]
    assert not any("api-key" in command or "API_KEY" in command for command in commands)


@real
@patient
def test_requests_survive_the_death_of_the_engine_with_the_same_samples(running: Running) -> None:
    requests = [running.request(num_samples=8, seed=100 * i, max_tokens=100) for i in range(48)]

    async def at_once(*, with_kill: bool) -> list[list[Completion]]:
        tasks = [asyncio.create_task(running.server.sample(request)) for request in requests]
        if with_kill:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert sum(not task.done() for task in tasks) >= 10
            children = psutil.Process(running.server.process_group).children(recursive=True)
            engines = [each for each in children if "EngineCore" in each.name()]
            assert engines
            engines[0].kill()
        return await asyncio.gather(*tasks)

    wanted = running.run(at_once(with_kill=False))
    first_group = running.server.process_group
    assert running.run(at_once(with_kill=True)) == wanted
    assert running.server.num_restarts == 1
    assert members(first_group) == []


@real
@patient
def test_sigkill_of_the_parent_ends_the_server(model_path: Path, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(model_path), str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert parent.stdout is not None
    group_id = int(parent.stdout.readline())
    assert len(members(group_id)) >= 3
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 20
    while left := members(group_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@real
@patient
def test_a_start_that_fails_says_why(model_path: Path, tmp_path: Path) -> None:
    async def enter() -> None:
        engine = EngineConfig(max_model_len=100_000, num_threads=1)
        model = ModelConfig(name=str(model_path))
        async with open_vllm_server(model, engine, state_path=tmp_path):
            raise AssertionError("must not open")

    with pytest.raises(EngineError, match="vllm_server ended while starting") as error:
        asyncio.run(enter())
    assert "max_model_len (100000) is greater than" in str(error.value)
