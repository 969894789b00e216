"""Episodes to be read: what is drawn for them, and pages in which every text is only text (about 5 s of CPU)."""

import inspect
import re
from html.parser import HTMLParser

import pytest
from support import tiny_agents as tiny

from fedrl.llm.episodes import Episode, Turn
from fedrl.llm.evaluation import HELD_OUT_ACTING
from fedrl.llm.labels import label
from fedrl.llm.transcript import outcome, page, play_task, printable, turn_facts

NASTY = "\n</pre><script>alert('x')</script>\n\"><img src=x onerror=alert(1)> &lt;b&gt; <!-- ]]> {0} 5 < 6 & ü\u2028"
ALLOWED = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "dl", "dt", "dd", "section", "pre"}


def episode(*turns: Turn, won: bool = False) -> Episode:
    return Episode(7, "warm", [], list(turns), 0.25, won)


class Opened(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, and the text in each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def handle_comment(self, data):
        pytest.fail(f"a comment, {data!r}")


def test_the_same_seed_plays_the_same_episode():
    spec, theta = tiny.Tiny(), tiny.Tiny().first()
    first, again = (play_task(spec, theta, tiny.COLOURS_ENVIRONMENT, 4, seed=3) for _ in range(2))
    assert first == again
    assert first.task == 4
    drawn = {
        tuple(turn.action for turn in play_task(spec, theta, tiny.COLOURS_ENVIRONMENT, 4, seed=s).turns)
        for s in range(8)
    }
    assert len(drawn) > 1


def test_agents_act_as_they_are_evaluated():
    for play in (play_task, label):
        assert inspect.signature(play).parameters["acting"].default is HELD_OUT_ACTING


def test_the_parameters_decide():
    plays = [
        [play_task(tiny.Tiny(), tiny.Tiny(seed=k).first(), tiny.COLOURS_ENVIRONMENT, t).turns for t in range(6)]
        for k in (0, 1)
    ]
    assert plays[0] != plays[1]


def test_what_is_told_of_a_turn():
    chosen = Turn("seen", "wait", "wait", True, 0.0, ())
    assert turn_facts(chosen) == {"says and does": "wait", "reward": "0.000"}
    free = Turn("seen", "<think>so</think><action>wait</action>", "wait", True, 0.5, ())
    assert turn_facts(free) == {"says": free.answer, "does": "wait", "reward": "0.500"}
    assert turn_facts(free._replace(valid=False))["does"] == "wait  (not well-formed)"
    assert outcome(episode(free, free)) == "not won, score 0.250, 2 steps"
    assert outcome(episode(free, won=True)) == "won, score 0.250, 1 step"


def test_terminals_are_not_controlled():
    assert printable("a\x1b[31m\x07\r\x9b\udc80\n\tä\u00a0") == "a\ufffd[31m\ufffd\ufffd\ufffd\ufffd\n\tä\u00a0"


def test_every_text_of_a_page_is_only_text(tmp_path):
    turn = Turn(NASTY, f"says {NASTY}", f"does {NASTY}", True, 1.0, ())
    (tmp_path / "page.html").write_bytes(page(f"t {NASTY}", {f"name {NASTY}": f"fact {NASTY}"}, episode(turn)).encode())
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    opened = Opened(text)
    assert opened.open == []
    assert {tag for tag, _ in opened.found} == ALLOWED
    attributes = {(tag, name) for tag, named in opened.found for name in named} - {("meta", "http-equiv")}
    assert attributes == {("html", "lang"), ("meta", "charset"), ("meta", "name"), ("meta", "content"), ("p", "class")}
    assert opened.texts["title"] == opened.texts["h1"] == [f"t {NASTY}"]
    assert opened.texts["pre"] == [f"\n{NASTY}"]  # the first new line is the page's own, which browsers drop
    assert opened.texts["dt"] == [f"name {NASTY}", "says", "does", "reward"]
    assert opened.texts["dd"] == [f"fact {NASTY}", f"says {NASTY}", f"does {NASTY}", "1.000"]
    assert text.count("alert") == 2 * (2 + 2 + 3)  # each only where it is checked above


def test_a_page_needs_nothing_but_itself():
    turns = [Turn(f"seen {i}", "wait", "wait", True, 0.0, ()) for i in range(3)]
    text = page("title", {}, episode(*turns, won=True))
    assert not re.search(r"<script|<link|src=|href=|url\(|@import|//", text)
    assert "default-src 'none'" in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert Opened(text).texts["h2"] == ["step 1", "step 2", "step 3", "end"]
    assert text.count('<p class="won">won, score 0.250, 3 steps</p>') == 2
