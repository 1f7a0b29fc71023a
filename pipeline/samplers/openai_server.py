"""Servers that already run: one or many, with one model, each an engine of a pool.

For vLLM 0.10.2 or later (`vllm serve`) and servers that answer like it: a prompt of token ids,
`n` completions with seeds `seed` to `seed + n - 1`, and each completion's token ids are asked
for (`openai_client`). What defines the samples is the model named in the config; that the
servers run it is taken from the name under which they serve it, so `engine.served_model` is
the user's word. The API key comes from the environment and is written nowhere.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from pipeline.config import EngineConfig, ModelConfig, served_name, server_root
from pipeline.errors import ConfigError
from pipeline.samplers.engine_pool import EnginePool, open_pool
from pipeline.samplers.openai_client import CompletionsClient, ServerFaultError
from pipeline.samplers.sampler import Completion, SamplingRequest

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@asynccontextmanager
async def open_openai_servers(
    model: ModelConfig, engine: EngineConfig
) -> AsyncGenerator[EnginePool]:
    """A sampler over the servers at `engine.urls`; they are left running.

    Raises ConfigError for no URL or an unset key variable, EngineError where no server answers
    within `engine.startup_seconds` or one does not serve the model.
    """
    if not engine.urls:
        raise ConfigError("engine.urls is empty; give the servers' addresses (http://HOST:PORT)")
    api_key = api_key_from(os.environ, engine)
    async with AsyncExitStack() as stack:
        servers: list[_Server] = []
        for url in engine.urls:
            client = _client(server_root(url), model, engine, api_key)
            stack.push_async_callback(client.aclose)
            servers.append(_Server(client))
        yield await stack.enter_async_context(open_pool(servers, engine))


def api_key_from(environ: Mapping[str, str], engine: EngineConfig) -> str | None:
    """The key in the variable that `engine.api_key_env` names; None where it names none."""
    if engine.api_key_env is None:
        return None
    key = environ.get(engine.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"engine.api_key_env = {engine.api_key_env!r}: this environment variable is not set; "
            "export it where stepmark runs, or leave engine.api_key_env out"
        )
    return key


class _Server:
    """One server as a member of the pool."""

    def __init__(self, client: CompletionsClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        return self._client.base_url

    async def sample(self, request: SamplingRequest) -> list[Completion]:
        return await self._client.sample(request)

    async def revive(self) -> None:
        await self._client.load_model_card()
        if not await self._client.is_healthy():
            raise ServerFaultError(f"{self.name}/health does not answer 200")


def _client(
    url: str, model: ModelConfig, engine: EngineConfig, api_key: str | None
) -> CompletionsClient:
    return CompletionsClient(
        url,
        model_name=served_name(model, engine),
        api_key=api_key,
        request_seconds=engine.request_seconds,
        max_model_len=engine.max_model_len,
        trust_env=urlsplit(url).hostname not in _LOOPBACK,
    )
