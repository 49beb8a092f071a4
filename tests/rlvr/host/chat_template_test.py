"""Chat templates run in a sandbox, with the helpers that checkpoints' templates call."""

import pytest

from rlvr.host import chat_template

USER = [{'role': 'user', 'content': 'hi'}]


class TestRender:

  def test_fallback_labels_lines(self):
    messages = [{'role': 'system', 'content': 'Be brief.'}, *USER]
    assert chat_template.render(chat_template.FALLBACK, messages) == (
        'System: Be brief.\nUser: hi\nAssistant:')
    assert chat_template.render(
        chat_template.FALLBACK, USER, add_generation_prompt=False) == 'User: hi\n'

  def test_tojson_does_not_escape_html(self):
    text = chat_template.render('{{ messages[0] | tojson }}', [{'role': 'user', 'content': "<'é"}])
    assert text == '{"role": "user", "content": "<\'é"}'

  def test_tools_and_variables_reach_the_template(self):
    text = chat_template.render(
        '{{ tools[0].name }} {{ enable_thinking }}', USER, tools=[{'name': 'add'}],
        variables={'enable_thinking': False})
    assert text == 'add False'

  def test_strftime_now_and_loop_controls(self):
    text = chat_template.render(
        "{% for m in messages %}{% break %}{% endfor %}{{ strftime_now('%Y') | length }}", USER)
    assert text == '4'

  def test_generation_marks_are_transparent(self):
    text = chat_template.render('a{% generation %}b{{ 1 + 1 }}{% endgeneration %}c', USER)
    assert text == 'ab2c'

  def test_none_entries_are_left_out(self):
    text = chat_template.render(
        '{{ messages[0].tool_calls is defined }}', [{**USER[0], 'tool_calls': None}])
    assert text == 'False'

  def test_raise_exception_is_one_sentence(self):
    with pytest.raises(ValueError, match='refuses these messages: roles must alternate'):
      chat_template.render("{{ raise_exception('roles must alternate') }}", USER)

  def test_contents_that_are_no_text(self):
    with pytest.raises(ValueError, match='refuses these messages: can only concatenate'):
      chat_template.render("{{ 'a' + messages[0].content }}", [{'role': 'user', 'content': [1]}])

  def test_bad_syntax(self):
    with pytest.raises(ValueError, match='not valid Jinja'):
      chat_template.render('{% if %}', USER)

  def test_sandbox_refuses_internals_and_mutation(self):
    for source in ("{{ ''.__class__.__mro__[1].__subclasses__() }}",
                   '{{ messages.append(1) }}'):
      with pytest.raises(ValueError, match='refuses'):
        chat_template.render(source, USER)
