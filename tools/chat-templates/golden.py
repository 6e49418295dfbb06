#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders published chat templates with Python's own engine: the goldens of TemplateGoldensTest.

Needs jinja2 3.1.6 and nothing else. The environment is the one that transformers 5.19 sets up in
utils/chat_template_utils.py: immutable sandbox, trim_blocks, lstrip_blocks, loop controls, generation blocks,
tojson = json.dumps without ASCII escapes, raise_exception, strftime_now (here: of a fixed time).

Usage: golden.py TEMPLATES_FOLDER REQUESTS.json > goldens.jsonl
One line per template and request: {"template","request","text"} or {"template","request","error","message"}.
Several templates with the same answers share a line's text only by being equal; nothing is cut.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 11, 30, 12, 34, 56)
SPECIAL_TOKENS = {
    "bos_token": "<|bos|>",
    "eos_token": "<|eos|>",
    "unk_token": "<|unk|>",
    "pad_token": "<|pad|>",
}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def kind(error):
    """The words of RenderResult for what Python raised."""
    if type(error) is jinja2.exceptions.TemplateError:
        return "refused"
    if isinstance(error, jinja2.exceptions.SecurityError):
        return "security_error"
    if isinstance(error, jinja2.exceptions.UndefinedError):
        return "undefined_error"
    if isinstance(error, jinja2.exceptions.TemplateError):
        return "template_error"
    if isinstance(error, ZeroDivisionError):
        return "zero_division_error"
    if isinstance(error, OverflowError):
        return "overflow_error"
    if isinstance(error, LookupError):
        return "lookup_error"
    if isinstance(error, (TypeError, AttributeError)):
        return "type_error"
    if isinstance(error, (ValueError, AssertionError)):
        return "value_error"
    return type(error).__name__


def render(template, variables):
    try:
        return {"text": template.render(**variables)}
    except Exception as error:  # whatever a template does wrong is a golden too
        result = {"error": kind(error)}
        if result["error"] == "refused":
            result["message"] = str(error)
        return result


def main():
    folder = pathlib.Path(sys.argv[1])
    requests = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    env = environment()
    for path in sorted(folder.glob("*/*.jinja")):
        name = f"{path.parent.name}/{path.stem}"
        template = env.from_string(path.read_text(encoding="utf-8"))
        for request in requests:
            variables = {
                **SPECIAL_TOKENS,
                "documents": None,
                "add_generation_prompt": True,
                **request.get("kwargs", {}),
                "messages": request["messages"],
                "tools": request.get("tools"),
            }
            line = {"template": name, "request": request["id"], **render(template, variables)}
            print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
