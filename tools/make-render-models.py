#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes model folders without weights, for vLLM's rendering server (`vllm launch render`).

A folder holds the tokenizer of a family and the config.json of a tiny model of it: all that vLLM
needs to turn requests into token ids. gpt-oss also gets the rank file of o200k_base, rebuilt from
its tokenizer.json, since vLLM reads that instead.

    tools/make-render-models.py

Idempotent and quick; needs no package. The folders are <local>/models/render-<family>.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import sys

# Of the file that tiktoken publishes.
O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
O200K_TOKENS = 199998

TINY = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=32768,
    torch_dtype="bfloat16",
)
# The model type decides which tokenizer class transformers takes, so it has to be the family's own.
FAMILIES = {
    "qwen3": dict(
        TINY,
        architectures=["Qwen3ForCausalLM"],
        model_type="qwen3",
        vocab_size=151936,
        bos_token_id=151643,
        eos_token_id=151645,
    ),
    "llama3_1": dict(
        TINY,
        architectures=["LlamaForCausalLM"],
        model_type="llama",
        vocab_size=128256,
        bos_token_id=128000,
        eos_token_id=[128001, 128008, 128009],
    ),
    "deepseek_v3": dict(
        TINY,
        architectures=["DeepseekV3ForCausalLM"],
        model_type="deepseek_v3",
        vocab_size=129280,
        bos_token_id=0,
        eos_token_id=1,
        moe_intermediate_size=64,
        n_routed_experts=4,
        n_shared_experts=1,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        kv_lora_rank=32,
        q_lora_rank=None,
        qk_rope_head_dim=16,
        qk_nope_head_dim=16,
        v_head_dim=32,
        first_k_dense_replace=1,
    ),
    "gptoss": dict(
        TINY,
        architectures=["GptOssForCausalLM"],
        model_type="gpt_oss",
        vocab_size=201088,
        bos_token_id=199998,
        eos_token_id=200002,
        pad_token_id=199999,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "gemma3": dict(
        TINY,
        architectures=["Gemma3ForCausalLM"],
        model_type="gemma3_text",
        vocab_size=262208,
        bos_token_id=2,
        eos_token_id=1,
        sliding_window=512,
        layer_types=["sliding_attention", "full_attention"],
    ),
}


def byte_of_character() -> dict:
    """GPT-2's alphabet of visible characters for bytes."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in visible}
    hidden = (byte for byte in range(256) if byte not in visible)
    alphabet.update({chr(256 + i): byte for i, byte in enumerate(hidden)})
    return alphabet


def ranks(tokenizer_json: pathlib.Path) -> bytes:
    alphabet = byte_of_character()
    vocabulary = json.loads(tokenizer_json.read_text())["model"]["vocab"]
    lines = bytearray()
    for text, rank in sorted(vocabulary.items(), key=lambda entry: entry[1]):
        if rank < O200K_TOKENS:
            token = bytes(alphabet[character] for character in text)
            lines += base64.b64encode(token) + b" " + str(rank).encode() + b"\n"
    if hashlib.sha256(lines).hexdigest() != O200K_SHA256:
        sys.exit(f"kvoy tools: {tokenizer_json} does not give the ranks of o200k_base")
    return bytes(lines)


def main() -> None:
    repo = pathlib.Path(__file__).resolve().parent.parent
    local = pathlib.Path(os.environ.get("KVOY_LOCAL") or repo / ".local")
    for family, config in FAMILIES.items():
        source = local / "tokenizers" / family / "models"
        if not (source / "tokenizer.json").is_file():
            sys.exit(f"kvoy tools: no tokenizer.json in {source}; run: make tools")
        folder = local / "models" / f"render-{family}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(source / name, folder)
        if family == "gptoss":
            (folder / "o200k_base.tiktoken").write_bytes(ranks(source / "tokenizer.json"))
        # Last, as the tests look for this file.
        (folder / "config.json").write_text(json.dumps(config, indent=1))
    print(f"kvoy tools: models without weights are in {local / 'models'}", file=sys.stderr)


if __name__ == "__main__":
    main()
