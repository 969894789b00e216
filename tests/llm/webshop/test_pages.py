"""Pages: their text in the three profiles, what can be clicked, and where clicks lead."""

import pytest

from fedrl.llm.webshop import pages
from fedrl.llm.webshop.environment import WebShopEnv

TASK = (
    "Find me water resistant, rubber sole women's boots with color: burgundy, and size: 7 | 8, "
    "and price lower than {:.2f} dollars"
)
TITLE = "Hillbrook Walking Boots for Women, Water Resistant"


@pytest.fixture
def at(small_shop):
    """Text, what can be clicked, and instruction after some actions in one profile."""
    wanted = (("color", "burgundy"), ("size", "7 | 8"))
    task = next(i for i, goal in enumerate(small_shop.goals) if goal.options == wanted)

    def play(profile, *actions):
        env = WebShopEnv(small_shop, profile)
        text, info = env.reset(options={"task": task})
        for action in actions:
            text, _, _, _, info = env.step(action)
        return text, [command[6:-1] for command in info["admissible_commands"]], info["goal"]

    return play


def test_instruction(at, small_shop):
    limit = next(goal.price_upper for goal in small_shop.goals if goal.options)
    assert at(pages.TEXT)[2] == TASK.format(limit)


def test_text(at):
    text, _, task = at(pages.TEXT)
    assert text == f"WebShop [SEP] Instruction: [SEP] {task} [SEP] Search"
    top = f"Instruction: [SEP] {task} [SEP] Back to Search [SEP] "
    text, clickable, _ = at(pages.TEXT, "search[boots]")
    assert text == (
        f"{top}Page 1 (Total results: 2) [SEP] B00AAA0001 [SEP] {TITLE} [SEP] $59.95 "
        "[SEP] B00AAA0005 [SEP] Tarn Oak Desk [SEP] $1299.0"
    )
    assert clickable == ["back to search", "b00aaa0001", "b00aaa0005"]
    text, clickable, _ = at(pages.TEXT, "search[boots]", "click[b00aaa0001]")
    assert text == (
        f"{top}< Prev [SEP] size [SEP] 6 wide [SEP] 7 | 8 [SEP] color [SEP] navy [SEP] burgundy [SEP] {TITLE} [SEP] "
        "Price: $59.95 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert clickable == [
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
        *("6 wide", "7 | 8", "navy", "burgundy"),
    ]
    opened = ("search[boots]", "click[b00aaa0001]")
    assert at(pages.TEXT, *opened, "click[description]")[0] == (
        f"{top}< Prev [SEP] Sturdy boots with a rubber sole for wet paths."
    )
    assert at(pages.TEXT, *opened, "click[features]")[:2] == (
        f"{top}< Prev [SEP] Rubber sole [SEP] Keeps your feet dry on long days",
        ["back to search", "< prev"],
    )
    assert at(pages.TEXT, *opened, "click[reviews]")[0] == f"{top}< Prev [SEP] No reviews found"
    assert at(pages.TEXT, *opened, "click[burgundy]", "click[7 | 8]", "click[buy now]")[:2] == (
        "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0",
        [],
    )


def test_empty_sub_pages(at):
    opened = ("search[lamp]", "click[b00aaa0006]")
    assert at(pages.TEXT, *opened, "click[description]")[0].endswith("< Prev [SEP] No Description")
    assert at(pages.TEXT, "search[desk]", "click[b00aaa0005]", "click[features]")[0].endswith("[SEP] No Features")


def test_attributes_where_a_profile_shows_them(at):
    profile = pages.TEXT._replace(sub_pages=("Attributes",))
    text, _, _ = at(profile, "search[lamp]", "click[b00aaa0006]", "click[attributes]")
    assert text.endswith("< Prev [SEP] garden [SEP] lamp [SEP] Home & Kitchen › Lighting › Lamps")


def test_text_rich(at):
    opened = ("search[boots]", "click[b00aaa0001]")
    text, _, task = at(pages.TEXT_RICH, *opened, "click[7 | 8]", "click[burgundy]")
    assert text == (
        "You have clicked burgundy.\nYou have clicked 7 | 8.\n"
        f"Instruction:\n{task}\n[button] Back to Search [button_]\n[button] < Prev [button_]\n"
        "size\n  [button] 6 wide [button_]\n  [clicked button] 7 | 8 [clicked button_]\n"
        "color\n  [button] navy [button_]\n  [clicked button] burgundy [clicked button_]\n"
        f"{TITLE}\nPrice: $59.95\nRating: N.A.\n"
        "[button] Description [button_]\n[button] Features [button_]\n[button] Reviews [button_]\n"
        "[button] Buy Now [button_]\n"
    )
    results, _, _ = at(pages.TEXT_RICH, *opened, "click[< prev]")
    assert results == (
        f"Instruction:\n{task}\n[button] Back to Search [button_]\nPage 1 (Total results: 2)\n"
        f"\n[clicked button] B00AAA0001 [clicked button_]\n{TITLE}\n$59.95\n"
        "\n[button] B00AAA0005 [button_]\nTarn Oak Desk\n$1299.0\n"
    )
    assert at(pages.TEXT_RICH)[0] == f"WebShop\nInstruction:\n{task}\n[button] Search [button_]\n"


def test_compact(at):
    text, _, task = at(pages.COMPACT)
    assert text == f"Task: {task}"
    opened = ("search[boots]", "click[b00aaa0001]")
    assert at(pages.COMPACT, "search[boots]")[0] == (
        f"[back to search]\n[b00aaa0001] {TITLE.lower()} $59.95\n[b00aaa0005] tarn oak desk $1299.0"
    )
    text, clickable, _ = at(pages.COMPACT, *opened, "click[7 | 8]")
    assert text == (
        f"{TITLE.lower()}\nPrice: $59.95\n[buy now] [features] [< prev] [back to search]\n"
        "size = 7 | 8: [6 wide] [7 | 8]\ncolor: [navy] [burgundy]"
    )
    assert clickable == ["back to search", "< prev", "features", "buy now", "6 wide", "7 | 8", "navy", "burgundy"]
    assert at(pages.COMPACT, *opened, "click[features]")[0] == (
        "[back to search] [< prev]\nRubber sole\nKeeps your feet dry on long days"
    )
    assert at(pages.COMPACT, *opened, "click[buy now]")[0] == "Bought. Score: 0.60"
    assert at(pages.COMPACT, "search[lamp]", "click[b00aaa0006]")[0].endswith("[back to search]")


def test_titles_of_a_compact_page_are_cut(at):
    profile = pages.COMPACT._replace(title_words=2)
    assert "[b00aaa0001] hillbrook walking $59.95" in at(profile, "search[boots]")[0]


def test_paging(shop):
    env = WebShopEnv(shop, pages.COMPACT)
    env.reset(options={"task": 0})
    hits = shop.search("free")
    assert len(hits) > 8

    def shown(action):
        text, *_, info = env.step(action)
        buttons = [command for command in info["admissible_commands"] if "[b0" not in command]
        return [asin for asin in hits if f"[{asin.lower()}]" in text], buttons

    assert shown("search[free]") == (list(hits[:4]), ["click[back to search]", "click[next >]"])
    assert shown("click[next >]") == (list(hits[4:8]), ["click[back to search]", "click[< prev]", "click[next >]"])
    assert shown("click[< prev]")[0] == list(hits[:4])
    for _ in range((len(hits) - 1) // 4):
        last = shown("click[next >]")
    assert last == (list(hits[(len(hits) - 1) // 4 * 4 :]), ["click[back to search]", "click[< prev]"])


@pytest.mark.parametrize(
    ("after", "chosen"),
    [
        ((), {"color": "navy"}),
        (("click[burgundy]",), {"color": "burgundy"}),  # replaces
        (("click[6 wide]",), {"color": "navy", "size": "6 wide"}),
        (("click[features]", "click[< prev]"), {"color": "navy"}),  # keeps
        (("click[< prev]", "click[b00aaa0001]"), {}),
        (("click[back to search]", "search[boots]", "click[b00aaa0001]"), {}),
    ],
)
def test_what_is_chosen(small_shop, after, chosen):
    env = WebShopEnv(small_shop)
    env.reset(options={"task": 0})
    for action in ("search[boots]", "click[b00aaa0001]", "click[navy]", *after):
        env.step(action)
    assert env.page.kind == "item"
    assert dict(env.page.chosen) == chosen


def test_going_back_forgets_all_but_what_was_seen(small_shop):
    env = WebShopEnv(small_shop)
    env.reset(options={"task": 0})
    searching = env.page
    env.step("search[boots]")
    results = env.page
    for action in ("click[b00aaa0001]", "click[navy]", "click[< prev]"):
        env.step(action)
    assert env.page == results._replace(seen=frozenset({"B00AAA0001"}))
    env.step("click[back to search]")
    assert env.page == searching


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[Red Shoes]", ("search", "red shoes")),
        (" Click[ Buy Now ] ", ("click", "buy now")),
        ("click[case [2 pack]]", ("click", "case [2 pack]")),
        ("click[]", None),
        ("buy[now]", None),
        ("please click[buy now]", None),
        ("click buy now", None),
    ],
)
def test_action_grammar(action, parsed):
    assert pages.parse(action) == parsed
