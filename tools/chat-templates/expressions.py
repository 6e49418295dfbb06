#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random small templates and what Python's Jinja2 makes of them: the goldens of ExpressionGoldensTest.

Usage: expressions.py COUNT SEED > expressions.jsonl
The first line holds the variables; then {"source","text"} or {"source","error"[,"message"]}. What prints memory
addresses is left out. Needs jinja2 3.1.6.
"""
import copy
import json
import random
import sys

import jinja2

import golden

VARIABLES = {
    "n": 7,
    "big": 12345678901234567890123,
    "neg": -3,
    "f": 2.5,
    "tiny": 1e-7,
    "huge": 1.5e300,
    "s": "Hello, World",
    "u": "Grüße 🙂 straße ΣΑΣ ǆ",
    "w": "  padded\ttext \n",
    "e": "",
    "q": "it's \"quoted\" <b>&amp;</b> \\ \u0000\u0007\u200b",
    "lines": "one\ntwo\r\nthree\n\nfour\u2028five",
    "yes": True,
    "no": False,
    "nil": None,
    "xs": [3, 1, 2, 2],
    "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "mixed": [1, "a", None, True, 2.5, [1, 2], {"k": "v"}],
    "empty": [],
    "d": {"b": 2, "a": 1, "C": [1, {"x": None}], "items": "shadowed", "_p": "private"},
    "rows": [
        {"name": "ann", "age": 31, "tags": ["x", "y"], "at": {"city": "Oslo"}},
        {"name": "Bob", "age": 25, "tags": [], "at": {"city": "Brest"}},
        {"name": "cy", "age": 31, "at": {"city": "oslo"}},
        {"name": "dee", "age": None, "tags": ["z"], "ok": False},
    ],
    "m": {"role": "user", "content": "hi", "tool_calls": None},
}

R = random.Random()


def pick(*options):
    return R.choice(options)


def integer(depth):
    if depth <= 0 or R.random() < 0.3:
        return pick("n", "neg", "0", "1", "2", "3", "-1", "10", "big", "yes", "0x1f", "1_000", "255", "loop.index" if IN_LOOP else "5")
    d = depth - 1
    return pick(
        lambda: f"({integer(d)} {pick('+', '-', '*', '//', '%')} {integer(d)})",
        lambda: f"{pick('xs', 'words', 's', 'd', 'rows', 'u')}|length",
        lambda: f"({text(d)})|int" + pick("", "(5)", "(default=9)", "(0, 16)"),
        lambda: f"{number(d)}|int",
        lambda: f"({integer(d)})|abs",
        lambda: f"-{integer(d)}",
        lambda: f"{text(d)}.{pick('find', 'rfind', 'count', 'index')}({shorttext()})",
        lambda: f"{lst(d)}|{pick('first', 'last', 'min', 'max', 'sum', 'length')}",
        lambda: f"xs[{integer(d)}]",
        lambda: f"({integer(d)} if {boolean(d)} else {integer(d)})",
        lambda: f"2 ** {pick('0', '3', '10', '70', '-1')}",
        lambda: f"{text(d)}|wordcount",
    )()


def number(depth):
    if depth <= 0 or R.random() < 0.3:
        return pick("f", "tiny", "huge", "n", "1.0", "0.1", "3.14159", "1e16", "123456789.125", "-0.0", "100", "2.50", "1e-5")
    d = depth - 1
    return pick(
        lambda: f"({number(d)} {pick('+', '-', '*', '/', '//', '%')} {number(d)})",
        lambda: f"{number(d)}|round" + pick("", "(1)", "(2, 'floor')", "(1, 'ceil')", "(-1)", "(method='ceil')"),
        lambda: f"({text(d)})|float" + pick("", "(1.5)"),
        lambda: integer(d),
        lambda: f"({integer(d)} / {integer(d)})",
        lambda: f"{number(d)}|abs",
    )()


def shorttext():
    return pick("'l'", "' '", "','", "'o'", "'\\n'", "'xx'", "'é'", "'🙂'", "'apple'", "'s'", "''", "'<b>'")


def text(depth):
    if depth <= 0 or R.random() < 0.25:
        return pick("s", "u", "w", "q", "lines", "e", "'abc'", '"x\\ty"', "'42'", "'-7.5'", "'0x1F'", "m.role", "m['content']", "words[1]", "'a' 'b'", "rows[0].name", "'%'")
    d = depth - 1
    return pick(
        lambda: f"({text(d)} + {text(d)})",
        lambda: f"({any_(d)} ~ {any_(d)})",
        lambda: f"{text(d)}|{pick('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'escape', 'e', 'urlencode', 'safe', 'forceescape')}",
        lambda: f"({text(d)}).{pick('upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase', 'casefold')}()",
        lambda: f"({text(d)}).{pick('strip', 'lstrip', 'rstrip')}({shorttext()})",
        lambda: f"({text(d)}).replace({shorttext()}, {shorttext()}{pick('', ', 1', ', 0', ', -1')})",
        lambda: f"{text(d)}|replace({shorttext()}, {pick(shorttext(), '1')}{pick('', ', 2')})",
        lambda: f"({text(d)})[{slice_()}]",
        lambda: f"({text(d)})[{integer(0)}]",
        lambda: f"{lst(d)}|join" + pick("", "(', ')", "('', attribute='name')", "(d='-')", "(1)"),
        lambda: f"{any_(d)}|tojson" + pick("", "", "(indent=2)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',', ':'))", "(indent=0)", "(indent='\\t')"),
        lambda: f"({text(d)}).{pick('center', 'ljust', 'rjust')}({pick('10', '21', '3')}{pick('', ', %s' % repr('*'))})",
        lambda: f"({text(d)}).zfill({pick('5', '20')})",
        lambda: f"({pick('removeprefix', 'removesuffix') and text(d)}).{pick('removeprefix', 'removesuffix')}({shorttext()})",
        lambda: f"{shorttext()}.join({lst(d)})",
        lambda: f"'{percent()}' % {pick(integer(d), number(d), text(d), '(' + any_(d) + ',)')}",
        lambda: f"'{percent()} {percent()}' % ({any_(d)}, {any_(d)})",
        lambda: f"'{percent()}|{percent()}'|format({integer(d)}, {number(d)})",
        lambda: f"'{brace()} {{}}'.format({pick(integer(d), number(d), text(d))}, {any_(d)})",
        lambda: f"'{{0}}{{1!r}}{{k}}'.format({integer(d)}, {text(d)}, k={any_(d)})",
        lambda: f"{text(d)}|indent" + pick("", "(2)", "(2, true)", "(2, blank=true)", "('> ', first=true)"),
        lambda: f"{text(d)}|center(20)",
        lambda: f"{text(d)}|truncate({pick('5', '9', '9, true', '9, false, end=%s' % repr('…'), '11, leeway=0')})",
        lambda: f"({text(d)} if {boolean(d)} else {text(d)})",
        lambda: f"({text(d)} if {boolean(d)})",
        lambda: f"{any_(d)}|default({text(d)}{pick('', ', true', ', boolean=true')})",
        lambda: f"({text(d)} * {pick('0', '2', '3', '-1')})",
        lambda: f"{any_(d)}|string",
        lambda: f"{lst(d)}|{pick('first', 'last')}",
        lambda: f"({text(d)}).expandtabs({pick('', '4')})",
    )()


def percent():
    return pick("%s", "%d", "%5d", "%-5d|", "%05d", "%+d", "%x", "%X", "%#x", "%o", "%.2f", "%8.3f", "%e", "%.3e", "%g", "%G", "%r", "%.3s", "%10s", "%-10s|", "%i", "%c", "%%", "% d", "%5.1f")


def brace():
    return pick("{}", "{:5}", "{:<8}|", "{:>8}", "{:^9}|", "{:*^9}", "{:05}", "{:+}", "{:,}", "{:_}", "{:x}", "{:#x}", "{:b}", "{:.2f}", "{:10.3f}", "{:e}", "{:g}", "{:.3}", "{:%}", "{:d}", "{:s}", "{!r:>10}", "{{}}{}", "{:.1%}", "{:n}", "{:c}", "{:08.2f}", "{:,.2f}", "{:012,}")


def slice_():
    a, b = pick("", "0", "1", "2", "-2", "-1", "100", "-100", "n"), pick("", "0", "1", "3", "-1", "100", "-100")
    c = pick("", "", "", ":", ":2", ":-1", ":-2", ":1")
    return f"{a}:{b}{c}"


def lst(depth):
    if depth <= 0 or R.random() < 0.25:
        return pick("xs", "words", "mixed", "empty", "rows", "[1, 2, 3]", "['b', 'a']", "(1, 'x')", "range(4)", "range(5, 0, -2)", "[]", "d", "s", "()", "(1,)", "[[2, 1], [1, 2]]", "d.values()", "d.keys()")
    d = depth - 1
    return pick(
        lambda: f"({lst(d)})[{slice_()}]",
        lambda: f"{text(d)}.{pick('split', 'rsplit')}({pick('', ' None'.strip(), shorttext(), shorttext() + ', 1', 'maxsplit=2', 'sep=%s' % repr(','))})",
        lambda: f"{text(d)}.splitlines({pick('', 'true')})",
        lambda: f"({text(d)}).{pick('partition', 'rpartition')}({shorttext()})",
        lambda: f"{lst(d)}|list",
        lambda: f"{lst(d)}|sort" + pick("", "(reverse=true)", "(case_sensitive=true)", "(attribute='age')", "(attribute='name')", "(attribute='at.city,name')"),
        lambda: f"{lst(d)}|unique|list",
        lambda: f"{lst(d)}|reverse|list",
        lambda: f"rows|map(attribute='{pick('name', 'age', 'at.city', 'tags.0', 'tags', 'zzz')}'{pick('', ', default=1')})|list",
        lambda: f"{lst(d)}|map('{pick('upper', 'string', 'length', 'int', 'trim', 'abs', 'first')}')|list",
        lambda: f"{lst(d)}|{pick('select', 'reject')}({pick('', repr('odd'), repr('string'), repr('gt') + ', 1', repr('in') + ', xs', repr('defined'), repr('equalto') + ', 2', repr('mapping'))})|list",
        lambda: f"rows|{pick('selectattr', 'rejectattr')}('{pick('age', 'tags', 'ok', 'name', 'zzz')}'{pick('', ', %s' % repr('defined'), ', %s, 31' % repr('equalto'), ', %s' % repr('none'), ', %s, 30' % repr('gt'))})|list",
        lambda: f"{lst(d)}|batch({pick('2', '3')}{pick('', ', 0')})|list",
        lambda: f"{lst(d)}|slice({pick('2', '3')}{pick('', ', 0')})|list",
        lambda: f"({lst(d)} + {lst(d)})",
        lambda: f"{dct(d)}|dictsort" + pick("", "(true)", "(by='value')", "(reverse=true)"),
        lambda: f"{dct(d)}.items()|list",
        lambda: f"{dct(d)}|items|list",
        lambda: f"rows|groupby('{pick('age', 'at.city', 'name', 'ok')}'{pick('', ', default=0', ', case_sensitive=true')})",
        lambda: f"[{any_(d)}, {any_(d)}]",
        lambda: f"({any_(d)}, {any_(d)})",
        lambda: f"{lst(d)} * 2",
    )()


def dct(depth):
    if depth <= 0 or R.random() < 0.5:
        return pick("d", "m", "rows[0]", "{}", "{'a': 1, 'b': 'x'}", "dict(a=1, b=2)", "{1: 'one', 1.0: 'uno', true: 'yes', none: 'nil'}", "rows[0].at")
    d = depth - 1
    return pick(
        lambda: f"{{{text(0)}: {any_(d)}, 'k': {any_(d)}}}",
        lambda: f"dict({dct(d)}, z={any_(d)})",
        lambda: f"dict({lst(d)})",
        lambda: f"{dct(d)}.copy()",
    )()


def boolean(depth):
    if depth <= 0 or R.random() < 0.2:
        return pick("yes", "no", "true", "false", "n", "e", "nil", "missing", "xs", "empty", "0.0")
    d = depth - 1
    return pick(
        lambda: f"({any_(d)} {pick('==', '!=')} {any_(d)})",
        lambda: f"({number(d)} {pick('<', '<=', '>', '>=', '==')} {number(d)})",
        lambda: f"({text(d)} {pick('<', '>=')} {text(d)})",
        lambda: f"({lst(d)} {pick('<', '==')} {lst(d)})",
        lambda: f"({number(d)} < {number(d)} <= {number(d)})",
        lambda: f"({any_(d)} {pick('in', 'not in')} {pick(lst(d), text(d), dct(d))})",
        lambda: f"({text(d)} in {text(d)})",
        lambda: f"({boolean(d)} {pick('and', 'or')} {boolean(d)})",
        lambda: f"(not {boolean(d)})",
        lambda: f"({any_(d)} is {pick('', 'not ')}{test(d)})",
        lambda: f"({text(d)}).{pick('startswith', 'endswith')}({pick(shorttext(), '(' + shorttext() + ', ' + shorttext() + ')', shorttext() + ', 2', shorttext() + ', 1, -1')})",
        lambda: f"({text(d)}).{pick('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isidentifier', 'isprintable', 'isascii')}()",
    )()


def test(d):
    return pick("defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "iterable", "sequence", "boolean", "true", "false", "odd", "even", "upper", "lower", "callable", "escaped", "filter", "test", "divisibleby 3", f"divisibleby({integer(0)})", "sameas true", f"equalto({any_(d)})", f"in {lst(0)}", f"eq {integer(0)}", f"gt({number(0)})", f"lt({number(0)})", "sameas none")


def any_(depth):
    roll = R.random()
    if roll < 0.06:
        return pick("nil", "missing", "d.zzz", "xs[9]", "m.tool_calls", "none", "d['_p']", "d._p", "s.zzz", "d.b.c", "nil.x", "d.items", "missing.x")
    return pick(integer, number, text, text, lst, dct, boolean)(depth)


def expression(depth):
    return "{{ " + any_(depth) + " }}"


IN_LOOP = False


def statement(depth):
    global IN_LOOP
    kind = R.randrange(13)
    d = depth - 1
    if depth <= 0 or kind < 3:
        return expression(2)
    if kind == 3:
        before, IN_LOOP = IN_LOOP, True
        target = pick("x", "x", "k, v")
        iterable = lst(1) if target == "x" else pick("d.items()", "d|dictsort", "rows|groupby('age')", "[(1, 2), (3, 4)]", lst(1))
        condition = pick("", "", f" if {boolean(1)}", " if x" if target == "x" else "")
        body = pick("{{ loop.index }}", "{{ loop.revindex0 }}", "{{ x }}", "{{ k }}={{ v }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.previtem }}>{{ loop.nextitem }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.changed(x) }}", "{{ loop.length }}", "{% if loop.index > 2 %}{% break %}{% endif %}{{ x }}", "{% if x == 2 %}{% continue %}{% endif %}{{ x }}", "{% set n = n + 1 %}{{ n }}", "{% set ns.c = ns.c + 1 %}{{ ns.c }}") + " " + statement(d)
        IN_LOOP = before
        other = pick("", "{% else %}none" + statement(d))
        return "{% for " + target + " in " + iterable + condition + " %}" + body + other + "{% endfor %}"
    if kind == 4:
        return "{% if " + boolean(2) + " %}" + statement(d) + pick("", "{% elif " + boolean(1) + " %}" + statement(d)) + pick("", "{% else %}" + statement(d)) + "{% endif %}"
    if kind == 5:
        name = pick("n", "t", "s", "xs")
        return "{% set " + name + " = " + any_(2) + " %}{{ " + name + " }}" + statement(d)
    if kind == 6:
        return "{% set t" + pick("", " | upper", " | trim | length") + " %} " + statement(d) + " {% endset %}[{{ t }}]"
    if kind == 7:
        return "{% macro f(a, b=" + any_(1) + ") %}<{{ a }}:{{ b }}" + pick("", ":{{ varargs }}", ":{{ kwargs }}", ":{{ caller is defined }}") + ">{% endmacro %}{{ f(" + pick("", any_(1), any_(1) + ", " + any_(1), "b=" + any_(1), any_(0) + ", 2, 3", "1, z=2") + ") }}"
    if kind == 8:
        return "{% with n = " + any_(1) + ", t = n %}{{ n }}{{ t }}" + statement(d) + "{% endwith %}{{ n }}"
    if kind == 9:
        return "{% filter " + pick("upper", "trim", "replace('l', 'L')", "indent(2)", "length", "title") + " %}\n" + statement(d) + "\n{% endfilter %}"
    if kind == 10:
        return "{% macro g(a) %}({{ caller(a) }}){% endmacro %}{% call(x) g(" + any_(1) + ") %}{{ x }}|" + statement(d) + "{% endcall %}"
    if kind == 11:
        lead, tail = pick("{%", "{%-", "{%+"), pick("%}", "-%}", "+%}")
        return pick("a \n  ", "a\n\n", "  ", "\n\t") + lead + " if true " + tail + pick("\n  x\n", " x ", "\n\n") + lead + " endif " + tail + pick("\n b", "\n\n b", " b") + pick("{#- c -#}\n", "  {# c #}\n", "{#+ c +#} ", "") + statement(d)
    return "{% set ns = namespace(c=" + integer(0) + ", l=[]) %}{% for x in xs %}{% set ns.c = ns.c + x %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.c }}{{ ns.l }}" + statement(d)


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    R.seed(seed)
    env = golden.environment()
    # A slice of a number is an error, except where Jinja2 folds it as a constant; such sources are left out.
    plain = golden.environment()
    plain.optimized = False
    print(json.dumps(VARIABLES, ensure_ascii=False))
    done = 0
    seen = set()
    while done < count:
        source = "{% set ns = namespace(c=0) %}" + statement(3) if R.random() < 0.4 else expression(3)
        if len(source) > 700 or source in seen:
            continue
        seen.add(source)
        try:
            template = env.from_string(source)
        except jinja2.exceptions.TemplateSyntaxError:
            continue
        # Copies: Python's indent filter changes a list that it is given by mistake.
        result = golden.render(template, copy.deepcopy(VARIABLES))
        if result != golden.render(plain.from_string(source), copy.deepcopy(VARIABLES)):
            continue
        if " object at 0x" in result.get("text", "") or " object at 0x" in result.get("message", "") or "<built-in" in result.get("text", "") or len(result.get("text", "")) > 2000 or "<class" in result.get("text", ""):
            continue
        done += 1
        print(json.dumps({"source": source, **result}, ensure_ascii=False))


if __name__ == "__main__":
    main()
