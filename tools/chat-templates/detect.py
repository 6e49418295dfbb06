#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vLLM sees in a template before it renders: the goldens of TemplateFactsTest.

Needs vLLM 0.32 (vllm/renderers/hf.py, vllm/entrypoints/anthropic/serving.py), no model and no GPU.
Usage: detect.py TEMPLATES_FOLDER > template-facts.jsonl
One line per template: {"template","format","variables","merges_system"}, and some sources of our own: {"source",…}.
"""
import json
import pathlib
import sys

from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
from vllm.renderers.hf import _detect_content_format, _resolve_chat_template_kwargs

SOURCES = [
    "{% for m in messages %}{{ m.content }}{% endfor %}",
    "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% for c in m['content'] %}{{ c.text }}{% endfor %}{% endfor %}",
    "{% for m in messages[1:] %}{% for c in m['content'] | list %}{{ c.text }}{% endfor %}{% endfor %}",
    "{% for m in messages | reverse %}{% for c in m['content'][::-1] %}{{ c }}{% endfor %}{% endfor %}",
    "{% set all = messages %}{% for m in all %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "{% set a = messages[1:] %}{% set b = a %}{% for m in b %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% set content = m.content %}{% for c in content %}{{ c }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% set body = m.content %}{% for c in body %}{{ c }}{% endfor %}{% endfor %}",
    "{% for content in messages %}{{ content.content }}{% endfor %}",
    "{% macro show(content) %}{% for c in content %}{{ c }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}",
    "{% macro show(x) %}{% for c in x %}{{ c }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}",
    "{% macro show(x, y) %}{% for c in y %}{{ c }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(1, y=m['content']) }}{% endfor %}",
    "{% macro show(content) %}{% for c in content %}{{ c }}{% endfor %}{% endmacro %}{{ show(1) }}",
    "{% for a, b in messages %}{{ a }}{% endfor %}",
    "{% set a, b = messages, 1 %}{% for m in a %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "{% set a, b = messages %}{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% for a, b in m.content.items() %}{{ a }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% for a, b in m.content %}{{ a }}{% endfor %}{% endfor %}",
    "{% for c in messages[0].content %}{{ c }}{% endfor %}",
    "{% for c in messages[0]['content'] %}{{ c }}{% endfor %}{% for c in content %}{{ c }}{% endfor %}",
    "{% set ns.x = messages %}{{ y }}",
    "{% set x = 1 %}{{ x }}{{ y }}{% for z in q if z > w %}{{ z }}{{ loop.index }}{{ v }}{% endfor %}{{ z }}",
    "{% macro f(a, b=c) %}{{ a }}{{ b }}{{ d }}{{ caller() }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(e) }}",
    "{% if a %}{% set x = 1 %}{% else %}{% set y = 2 %}{% endif %}{{ x }}{{ y }}{{ z is defined }}",
    "{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}{{ namespace() }}{{ raise_exception('x') }}{{ strftime_now('%Y') }}{{ dict(a=1) }}",
    "{% generation %}{{ g }}{% endgeneration %}{% set t %}{{ u }}{% endset %}{% with a = b %}{{ a }}{{ c }}{% endwith %}{% filter upper %}{{ d }}{% endfilter %}",
    "{% call(x) f(y) %}{{ x }}{{ z }}{% endcall %}{{ loop }}{% for a in b %}{% for c in d recursive %}{{ loop(e) }}{% endfor %}{% endfor %}",
    "{% set tools = tools or none %}{% set enable_thinking = enable_thinking | default(true) %}",
]


def merges_system(text):
    try:
        return AnthropicServingMessages._detect_merge_inline_system(text)
    except Exception:  # errors of Python itself stop a server; nothing to be equal to
        return None


def line(text):
    try:
        variables = sorted(_resolve_chat_template_kwargs(text))
    except Exception as error:
        variables = type(error).__name__
    return {
        "format": _detect_content_format(text, default="string"),
        "variables": variables,
        "merges_system": merges_system(text),
    }


def main():
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*.jinja")):
        text = path.read_text(encoding="utf-8")
        print(json.dumps({"template": f"{path.parent.name}/{path.stem}", **line(text)}))
    for source in SOURCES:
        print(json.dumps({"source": source, **line(source)}))


if __name__ == "__main__":
    main()
