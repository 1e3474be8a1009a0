"""Chat templates: how the messages of a conversation become one text. Free of torch.

    [{"role": "user", "content": "Hello"}]  ── template ──>  "User: Hello\\nAssistant:"      the answer follows

A template is Jinja, as in ``chat_template`` of a Hugging Face folder's tokenizer_config.json.
"""

DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}\n\n"
    "{% elif message['role'] == 'user' %}User: {{ message['content'] }}\n"
    "{% else %}Assistant: {{ message['content'] }}{{ eos_token }}\n"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""The template of a model without one. It needs no special token but the end of text."""
DEFAULT_STOPS = ("\nUser:",)
"""The texts that end an answer under ``DEFAULT_TEMPLATE``: a model that was not fine-tuned goes on with the user's."""

Message = dict[str, str]
"""``role`` (system, user or assistant) and ``content``."""
