// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * One token of a template.
 *
 * @param text the name, the operator, the unescaped string, the literal text or the number's digits
 * @param value a number's value, otherwise the text
 */
record Token(Kind kind, String text, Object value, int line) {

  enum Kind {
    /** Text outside of tags. */
    DATA,
    VARIABLE_BEGIN,
    VARIABLE_END,
    BLOCK_BEGIN,
    BLOCK_END,
    NAME,
    STRING,
    INTEGER,
    FLOAT,
    OPERATOR,
    EOF
  }

  boolean isOperator(String operator) {
    return kind == Kind.OPERATOR && text.equals(operator);
  }

  boolean isName(String name) {
    return kind == Kind.NAME && text.equals(name);
  }

  String describe() {
    return switch (kind) {
      case DATA -> "template text";
      case VARIABLE_BEGIN -> "{{";
      case VARIABLE_END -> "}}";
      case BLOCK_BEGIN -> "{%";
      case BLOCK_END -> "%}";
      case EOF -> "end of template";
      case NAME, STRING, INTEGER, FLOAT, OPERATOR -> text;
    };
  }
}
