"""Tiny random models and tokenizers for tests, in the classes that real ones have."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT = "Question: Mia has 3 eggs.\nAnswer: Mia has 1+2=3 eggs.\nThen.\n\n#### 3\n" * 20
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_tokenizer(*, chat: bool = False, bos: bool = False) -> Any:
    """Byte-level BPE without word borders: it merges `.` with a line break after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=4,
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", bos_token="<s>"
    )
    wrapped.chat_template = CHAT_TEMPLATE if chat else None
    return wrapped


def metaspace_tokenizer() -> Any:
    """As Llama 2's: a word's token begins with the white space before it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


def save_tiny_llama(folder: Path, tokenizer: Any, **generation: Any) -> Path:
    """A random Llama of 2 layers of 64 with head_dim 32, and `tokenizer`, in `folder`.

    `generation` sets entries of its `generation_config.json`.
    """
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        initializer_range=0.4,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.update(**generation)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
