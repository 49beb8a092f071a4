"""Chat templates: Jinja programs that turn messages into the text a model was tuned on.

A template comes with the checkpoint and is untrusted, so it runs in Jinja's
immutable sandbox, with the few helpers that Hugging Face templates expect.
"""

import datetime
import functools
import json
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

# What a model without a template is shown: labelled lines, as base models see in the wild.
FALLBACK = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}")

# Tokens that end a turn, beside the end-of-sequence ids that a checkpoint declares. One of
# them stops generation only if the template writes it (base models keep <|im_end|> unused).
TURN_ENDS = (
    '<|im_end|>', '<|eot_id|>', '<|eom_id|>', '<|end|>', '<end_of_turn>', '<|end_of_turn|>')


class _Generation(jinja2.ext.Extension):
  """{% generation %} marks the assistant's text in some templates; here it is transparent."""

  tags = {'generation'}

  def parse(self, parser: Any) -> list[jinja2.nodes.Node]:
    next(parser.stream)
    return parser.parse_statements(('name:endgeneration',), drop_needle=True)


def _raise_exception(message: str) -> None:
  raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
  return datetime.datetime.now().strftime(pattern)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
  # Jinja's own filter escapes HTML characters, which would put &#39; into prompts.
  return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                    sort_keys=sort_keys)


@functools.lru_cache(maxsize=32)
def _compiled(source: str) -> jinja2.Template:
  environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
      trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols])
  environment.filters['tojson'] = _tojson
  environment.globals['raise_exception'] = _raise_exception
  environment.globals['strftime_now'] = _strftime_now
  return environment.from_string(source)


def render(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> str:
  """The text of a conversation.

  Args:
    source: the Jinja template.
    messages: [{'role': ..., 'content': ...}, ...]; entries that are None are
      left out, as most templates would print 'None'.
    add_generation_prompt: end with what precedes the assistant's next words.
    tools: JSON schemas of callable tools, for templates that list them.
    variables: more names for the template (bos_token, enable_thinking, ...).
      A template that prints today's date takes it from `date_string`, where
      Llama 3 is concerned: give it, or prompts change overnight.

  Returns:
    The rendered text.

  Raises:
    ValueError: the template is not valid Jinja, or refuses these messages.
  """
  plain = [{k: v for k, v in message.items() if v is not None} for message in messages]
  try:
    return _compiled(source).render(
        messages=plain, tools=tools, add_generation_prompt=add_generation_prompt,
        **(variables or {}))
  except jinja2.TemplateSyntaxError as error:
    raise ValueError(f'The chat template is not valid Jinja: {error}.') from error
  except Exception as error:  # a template is a program: any fault is named as it is
    raise ValueError(f'The chat template refuses these messages: {error}.') from error
