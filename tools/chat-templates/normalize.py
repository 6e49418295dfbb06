#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vLLM hands to a chat template for odd requests: the goldens of ChatNormalizerTest.

Needs vLLM 0.32 (its request model and vllm/renderers/chat_utils.py), no model and no GPU.
Usage: normalize.py normalize-requests.json > normalized.jsonl
One line per request: {"id","request","string":…,"openai":…,"tools"}, each format with its messages or an error text.
"""
import json
import pathlib
import sys
import types

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.renderers.chat_utils import parse_chat_messages

CONFIG = types.SimpleNamespace(multimodal_config=None, enable_prompt_embeds=False)


def messages(request, content_format):
    try:
        parsed = ChatCompletionRequest.model_validate(json.loads(json.dumps(request)))
        conversation, _, _ = parse_chat_messages(parsed.messages, CONFIG, content_format=content_format)
        json.dumps(conversation)
        return conversation
    except Exception as error:
        return {"error": type(error).__name__}


def tools(request):
    try:
        parsed = ChatCompletionRequest.model_validate(json.loads(json.dumps(request)))
        return None if parsed.tools is None else [tool.model_dump() for tool in parsed.tools]
    except Exception as error:
        return {"error": type(error).__name__}


def main():
    for request in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        identity = request.pop("id")
        print(
            json.dumps(
                {
                    "id": identity,
                    "request": request,
                    "string": messages(request, "string"),
                    "openai": messages(request, "openai"),
                    "tools": tools(request),
                },
                ensure_ascii=False,
            )
        )


if __name__ == "__main__":
    main()
