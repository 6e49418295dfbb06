#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Qwen3 model of two tiny layers with random weights and the real Qwen3 tokenizer.

What it says is noise; its tokenizer, chat template, prefix cache and KV events are the real ones, and
it answers in milliseconds on a CPU. Run with the Python of <local>/vllm-venv, which has torch and
transformers:

    .local/vllm-venv/bin/python tools/make-tiny-model.py

Idempotent: the stamp file in the model folder names everything the content depends on.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

STAMP = ".kvoy-version"
SEED = 7
# Vocabulary and special tokens as in the tokenizer; head_dim 32 is one that vLLM's CPU attention takes.
SHAPE = dict(
    vocab_size=151936,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    bos_token_id=151643,
    eos_token_id=151645,
)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def say(text: str) -> None:
    print(f"kvoy tools: model: {text}", file=sys.stderr)


def fail(text: str, *advice: str) -> None:
    say(f"ERROR: {text}")
    for line in advice:
        say(f"  {line}")
    sys.exit(1)


def main() -> None:
    repo = pathlib.Path(__file__).resolve().parent.parent
    local = pathlib.Path(os.environ.get("KVOY_LOCAL") or repo / ".local")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=pathlib.Path, default=local / "tokenizers/qwen3/models")
    parser.add_argument("--out", type=pathlib.Path, default=local / "models/tiny-qwen3")
    options = parser.parse_args()

    stamp = f"qwen3 seed={SEED} " + " ".join(f"{k}={v}" for k, v in sorted(SHAPE.items()))
    stamp_file = options.out / STAMP
    if stamp_file.is_file() and stamp_file.read_text() == stamp:
        say(f"{options.out.name} is there")
        return
    for name in TOKENIZER_FILES:
        if not (options.tokenizer / name).is_file():
            fail(f"no {name} in {options.tokenizer}", "run: make tools")

    say(f"making {options.out.name} (half a minute, most of it importing torch)")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM
    except ImportError as problem:
        fail(
            f"{sys.executable} cannot import torch and transformers: {problem}",
            "run: tools/fetch-vllm.sh, then this script with <local>/vllm-venv/bin/python",
        )

    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out.parent, prefix=".making-") as scratch:
        made = pathlib.Path(scratch, "model")
        torch.manual_seed(SEED)
        model = Qwen3ForCausalLM(Qwen3Config(**SHAPE)).to(torch.bfloat16)
        model.save_pretrained(made, safe_serialization=True)
        for name in TOKENIZER_FILES:
            shutil.copy(options.tokenizer / name, made)
        (made / STAMP).write_text(stamp)
        if options.out.exists():
            options.out.rename(pathlib.Path(scratch, "replaced"))
        made.rename(options.out)
    say(f"ready: {options.out}")


if __name__ == "__main__":
    main()
