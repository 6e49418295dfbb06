#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vLLM renders for gpt-oss: the goldens of HarmonyRendererTest.

Needs vLLM 0.32 with oss-harmony 0.0.11, no model and no GPU. Follows _make_request_with_harmony of
vllm/renderers/online_renderer.py.
Usage: VLLM_SYSTEM_START_DATE=2026-11-30 harmony.py harmony-requests.json > harmony.jsonl
One line per request: {"id","request","segments"}; a segment is {"marker"} for one special token or {"text"}.
"""
import json
import pathlib
import sys

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.parser import harmony_utils as harmony
from vllm.tokenizers import mistral

FIRST_SPECIAL = 199998


def token_ids(request):
    parsed = ChatCompletionRequest.model_validate(json.loads(json.dumps(request)))
    mistral.maybe_serialize_tool_calls(parsed)
    instructions, rest = harmony.extract_instructions_from_messages(list(parsed.messages))
    messages = harmony.build_harmony_preamble(
        instructions=instructions,
        tools=parsed.tools,
        reasoning_effort=parsed.reasoning_effort,
        with_custom_tools=parsed.tools is not None,
    )
    messages.extend(harmony.parse_chat_inputs_to_harmony_messages(rest))
    return harmony.render_for_completion(messages)


def segments(ids):
    encoding = harmony.get_encoding()
    result, text = [], []
    for token in [*ids, None]:
        if token is not None and token < FIRST_SPECIAL:
            text.append(token)
            continue
        if text:
            result.append({"text": encoding.decode(text)})
            text = []
        if token is not None:
            result.append({"marker": encoding.decode([token])})
    return result


def main():
    for request in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        identity = request.pop("id")
        line = {"id": identity, "request": request, "segments": segments(token_ids(request))}
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
