"""Tiny random PRMs in the layouts of Qwen2.5-Math-PRM and Math-Shepherd, with their tokenizers."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast, Qwen2Config

from tests.tiny_models import byte_tokenizer
from train.foreign import Qwen2ForProcessRewardModel

QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen_tokenizer(*, special: bool = True, chat: bool = True) -> Any:
    """Byte-level, with the control tokens of Qwen and `<extra_0>`, which is one with `special`."""
    tokenizer = byte_tokenizer()
    for name in ("<|im_start|>", "<|im_end|>"):
        tokenizer.add_special_tokens({"additional_special_tokens": [name]})
    tag = AddedToken("<extra_0>", special=special, normalized=False)
    tokenizer.add_tokens([tag], special_tokens=special)
    tokenizer.chat_template = QWEN_CHAT if chat else None
    return tokenizer


def shepherd_tokenizer() -> Any:
    """As Mistral's: `▁` for spaces, one before the text, bytes for unknown letters, and `▁ки`,
    `▁+` and `▁-`.
    """
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:?=+-#", "к", "и"]
    words = ["▁", *letters, "ки", "▁ки", "▁+", "▁-", "St", "ep", "Step", "▁S", "▁Step"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {name: i for i, name in enumerate(["<unk>", "<s>", "</s>", *bytes_, *words])}
    merges = [("к", "и"), ("▁", "ки"), ("▁", "+"), ("▁", "-"), ("S", "t"), ("e", "p")]
    merges += [("St", "ep"), ("▁", "Step")]
    return _like_mistral(vocab, merges)


def mistral_tokenizer(file: Path) -> Any:
    """The tokenizer of Mistral in a SentencePiece file."""
    from transformers.convert_slow_tokenizer import SentencePieceExtractor

    found: Any = SentencePieceExtractor(str(file)).extract(models.BPE)
    return _like_mistral(found["vocab"], found["merges"])


def _like_mistral(vocab: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    model = models.BPE(
        vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocab["<s>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def _shape(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 256,
        "initializer_range": 0.4,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def save_qwen_prm(folder: Path) -> Path:
    """As on the Hub: its class named by `auto_map`, whose code is not there and must not be run."""
    torch.manual_seed(11)
    tokenizer = qwen_tokenizer()
    model = Qwen2ForProcessRewardModel(Qwen2Config(**_shape(tokenizer), num_labels=2))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "configuration_qwen2_rm.Qwen2RMConfig",
        "AutoModel": "modeling_qwen2_rm.Qwen2ForProcessRewardModel",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def save_shepherd_prm(folder: Path) -> Path:
    """A plain causal language model."""
    torch.manual_seed(12)
    tokenizer = shepherd_tokenizer()
    config = MistralConfig(**_shape(tokenizer), sliding_window=None)
    MistralForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
