"""How episodes are told: the pieces of chat templates, and the action in a free answer."""

import pytest
from support.tiny_agents import formatter, tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fedrl.llm.context import DATE, PromptFormatter, of_chat
from fedrl.llm.models import pocket
from fedrl.llm.parsing import action_in

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def chatting(template: str, eos: str | None = "<|im_end|>") -> PreTrainedTokenizerFast:
    words = [
        "<unknown>",
        "<|im_start|>",
        "<|im_end|>",
        "system",
        "user",
        "assistant",
        "act",
        "look",
        "wait",
        "You",
        "can:",
    ]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unknown>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token=eos, additional_special_tokens=["<|im_start|>", "<|im_end|>"]
    )
    made.chat_template = template
    return made


def test_of_chat():
    words = chatting(CHAT)
    template = of_chat(words, "act")
    assert template.opening == "<|im_start|>system\nact<|im_end|>\n<|im_start|>user\n"
    assert template.turn == "<|im_end|>\n<|im_start|>assistant\n"
    assert template.end == "<|im_end|>"
    assert template.between == "\n<|im_start|>user\n"
    assert template.shows_commands
    assert of_chat(words, "act", shows_commands=False) == template._replace(shows_commands=False)


def test_commands_are_listed_where_wanted():
    words = chatting(CHAT)
    for shows, told in ((True, "look\nYou can: wait, look"), (False, "look")):
        formatter = PromptFormatter(words, of_chat(words, "act", shows_commands=shows))
        wanted = words.encode(
            f"<|im_start|>system\nact<|im_end|>\n<|im_start|>user\n{told}<|im_end|>\n<|im_start|>assistant\n"
        )
        assert formatter.first("look", ["wait", "look"]) == wanted
        assert formatter.windowed("look", [], "look", ["wait", "look"], 2, "") == wanted
        demanding = formatter.first("look", ["wait", "look"], "wait")
        assert demanding == formatter.windowed("look", [], "look", ["wait", "look"], 2, "wait") != wanted


def test_a_transcript_is_what_the_template_renders():
    words = chatting(CHAT)
    told = PromptFormatter(words, of_chat(words, "act"))
    first, later = ("look", ["wait", "look"]), ("wait", ["look"])
    ours = [*told.first(*first), *told.command("look"), *told.later(*later)]
    turns = [
        {"role": "system", "content": "act"},
        {"role": "user", "content": "look\nYou can: wait, look"},
        {"role": "assistant", "content": "look"},
        {"role": "user", "content": "wait\nYou can: look"},
    ]
    whole = words.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert ours == words.encode(whole, add_special_tokens=False)


def test_a_template_that_rewrites_earlier_turns():
    """As those do that take the thinking out of all answers but the last."""
    forgetful = CHAT.replace(
        "{{ m['content'] }}", "{{ m['content'] if loop.last or m['role'] != 'assistant' else '' }}"
    )
    with pytest.raises(ValueError, match="rewrites earlier turns"):
        of_chat(chatting(forgetful), "act")
    with pytest.raises(ValueError, match="rewrites earlier turns"):
        of_chat(chatting(CHAT.replace("{{ m['content'] }}", "{{ loop.index }} {{ m['content'] }}")), "act")


def test_turns_that_end_otherwise():
    with pytest.raises(ValueError, match="turns end with '</s>"):
        of_chat(chatting(CHAT.replace("<|im_end|>", "</s>")), "act")
    with pytest.raises(ValueError, match="no end-of-text token"):
        of_chat(chatting(CHAT, eos=None), "act")


def test_a_template_that_tells_the_date_tells_always_the_same():
    dated = "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    template = of_chat(chatting(dated + "{{ date_string }} " + CHAT), "act")
    assert template.opening.startswith(f"{DATE} <|im_start|>system")


def test_the_end_is_one_token_that_no_command_has():
    told = formatter()
    assert told.end == tokenizer().eos_token_id
    assert told.command("take the red ball")[-1] == told.end
    assert told.end not in told.tokens("take the red ball")
    assert told.first("find the red thing", ["wait"]) == told.tokens("<world> find the red thing <agent>")


def test_pocket_tokenizer_reads_any_text():
    words = pocket.tokenizer(["go to shelf 12", "take apple 3 from shelf 12"], pocket.Size(vocabulary=300))
    for text in ("take apple 77 from shelf 1", "Größe: 3½ €", "  two  blanks\n"):
        tokens = words.encode(text, add_special_tokens=False)
        assert words.decode(tokens) == "".join(text.split())  # all but the blanks
    assert words.encode("[shelf]")[1:-1] == words.encode("shelf") == words.encode("to shelf 3")[1:-1]
    told = PromptFormatter(words, formatter().template)
    assert told.command("go to shelf 12") == [*words.encode("go to shelf 12"), told.end]


@pytest.mark.parametrize(
    ("text", "action", "valid"),
    [
        ("<think>hm</think><action>Go North</action>", "go north", True),
        ("<THINK>hm</THINK>\n<Action>\n look \n</Action>", "look", True),
        ("<think>a</think><action>one</action><action>two</action>", "one", True),
        ("<action>look</action>", "look", False),  # without a thought
        ("<think>hm<action>look</action>", "look", False),
        ("<think>看</think><action>look</action>", "look", False),
        ("<think>hm</think> I would rather go and look at the shelf", "ather go and look at the shelf", False),
        ("<think>hm</think><action>look", "<think>hm</think><action>look", False),
        ("", "", False),
    ],
)
def test_the_action_in_a_free_answer(text, action, valid):
    assert action_in(text) == (action, valid)
