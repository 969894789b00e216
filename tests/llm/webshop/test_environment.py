"""The environment: Gymnasium's contract, invalid actions, limits, and that other processes see the same bytes."""

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import fedrl
from fedrl.llm.webshop import pages
from fedrl.llm.webshop.environment import WebShopEnv
from fedrl.llm.webshop.expert import expert
from fedrl.llm.webshop.goals import human_goals
from fedrl.llm.webshop.shop import open_shop


def test_gymnasium_is_content(small_shop):
    check_env(WebShopEnv(small_shop), skip_render_check=True)


def test_info(small_shop):
    env = WebShopEnv(small_shop)
    task = next(i for i, goal in enumerate(small_shop.goals) if goal.asin == "B00AAA0005")
    _, info = env.reset(options={"task": task})
    assert info == {
        "admissible_commands": ["search[solid wood desk]", "search[wood desk]"],
        "search": True,
        "goal": "Find me a solid wood desk",
        "task": task,
        "task_type": "garden",
        "score": 0.0,
        "won": False,
    }
    env.step("search[solid wood desk]")
    env.step("click[b00aaa0005]")
    _, reward, terminated, truncated, info = env.step("click[buy now]")
    assert (reward, terminated, truncated, info["score"], info["won"]) == (1.0, True, False, 1.0, True)
    with pytest.raises(RuntimeError, match="call `reset` first"):
        env.step("click[back to search]")


def test_a_wrong_purchase_scores_its_share(small_shop):
    """The lamp for the desk: titles share "tarn", one word of three; not solid wood, but no limit: 1 of 2."""
    env = WebShopEnv(small_shop)
    env.reset(options={"task": next(i for i, goal in enumerate(small_shop.goals) if goal.asin == "B00AAA0005")})
    for action in ("search[lamp]", "click[b00aaa0006]"):
        env.step(action)
    _, reward, terminated, _, info = env.step("click[buy now]")
    assert (reward, terminated, info["score"], info["won"]) == (0.5, True, 0.5, False)


@pytest.mark.parametrize("action", ["", "search[]", "click[buy now]", "click[search]", "click[b00aaa0001]", "hello"])
def test_an_invalid_action_changes_nothing(small_shop, action):
    env = WebShopEnv(small_shop)
    before, told = env.reset(options={"task": 0})
    assert env.step(action) == (before, 0.0, False, False, told)
    before, *_, told = env.step("search[boots]")
    for other in ("search[lamp]", "click[navy]", action.replace("b00aaa0001", "b00aaa0006")):
        assert env.step(other) == (before, 0.0, False, False, told)


def test_the_step_limit_truncates(small_shop):
    env = WebShopEnv(small_shop, step_limit=3)
    env.reset(options={"task": 0})
    assert [env.step("look")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(RuntimeError):
        env.step("look")
    env.reset(options={"task": 0})
    env.step("search[boots]")
    env.step("click[b00aaa0001]")
    assert env.step("click[buy now]")[2:4] == (True, False)


def test_tasks_are_drawn_by_seed_from_the_customers_own(shop):
    env = WebShopEnv(shop, tasks=[5, 17, 400])
    drawn = [env.reset(seed=seed)[1]["task"] for seed in range(40)]
    assert set(drawn) == {5, 17, 400}
    assert drawn == [env.reset(seed=seed)[1]["task"] for seed in range(40)]
    with pytest.raises(ValueError, match="this shop has tasks 0 to"):
        env.reset(options={"task": len(shop.goals)})
    with pytest.raises(ValueError, match="without tasks"):
        WebShopEnv(shop, tasks=[])


def test_a_shop_without_tasks_is_refused(sample):
    with pytest.raises(ValueError, match="give no task for human_goals"):
        open_shop(sample._replace(human=None), goals=human_goals)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 4000), st.randoms(use_true_random=False), st.sampled_from(["TEXT", "TEXT_RICH", "COMPACT"]))
def test_every_admissible_command_leads_somewhere(shop, task, draw, profile):
    """Random customers: text stays in the space, only buying ends and pays, and nothing offered is refused."""
    env = WebShopEnv(shop, getattr(pages, profile))
    text, info = env.reset(options={"task": task % len(shop.goals)})
    ended = False
    while not ended:
        assert env.observation_space.contains(text)
        action = draw.choice(info["admissible_commands"])
        before = env.page
        text, reward, terminated, truncated, info = env.step(action)
        assert terminated == (action == "click[buy now]")
        assert reward == info["score"]
        assert reward == 0 or terminated
        assert env.page != before or dict(before.chosen).keys() & {each.option for each in env.clickables.values()}
        ended = terminated or truncated


PLAY = """
import sys
from fedrl.llm.webshop import catalogue, pages
from fedrl.llm.webshop.environment import WebShopEnv
from fedrl.llm.webshop.expert import expert
from fedrl.llm.webshop.shop import open_shop

files = catalogue.write(sys.argv[1], 120, seed=3)
shop = open_shop(files, seed=5)
said = [path.read_text(encoding="utf-8") for path in files] + [str(shop.goals), shop.characters]
for profile in (pages.TEXT, pages.TEXT_RICH, pages.COMPACT):
    for task in range(20):
        env = WebShopEnv(shop, profile)
        said.append(str(env.reset(seed=task)))
        env.reset(options={"task": task})
        said += [str(env.step(action)) for action in expert(shop, task, profile)]
sys.stdout.buffer.write("\\n".join(said).encode())
"""


def test_other_processes_see_the_same(tmp_path):
    seen = []
    for number in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": number, "PYTHONPATH": str(Path(fedrl.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-c", PLAY, tmp_path / number], capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        seen.append(hashlib.sha256(done.stdout).hexdigest())
    assert len(done.stdout) > 100_000
    assert seen[0] == seen[1]


def test_a_thousand_steps_per_cpu_second(shop, capsys):
    """Half experts, half random customers, queries not seen before."""
    draw, steps, env = random.Random(0), 0, WebShopEnv(shop)
    ways = [expert(shop, task) for task in range(60)]
    shop.search.cache_clear()
    start = time.process_time()
    for task in range(120):
        _, info = env.reset(options={"task": task})
        ended, way = False, iter(ways[task] if task < 60 else ())
        while not ended:
            action = next(way, None) or draw.choice(info["admissible_commands"])
            *_, terminated, truncated, info = env.step(action)
            ended, steps = terminated or truncated, steps + 1
    learning_rate = steps / (time.process_time() - start)
    with capsys.disabled():
        print(f"\nWebShop: {learning_rate:,.0f} steps per CPU second, 1,000 products ({steps} steps)")
    assert learning_rate >= 1000
