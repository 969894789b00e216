"""The two applications shared out, and the pocket model made for one of them (about 10 s of CPU)."""

import jax
import numpy as np
import pytest

from fedrl.llm.applications import Household, WebShop
from fedrl.llm.household.generate import Size as Rooms
from fedrl.llm.models import pocket_spec
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.pocket import Size
from fedrl.llm.models.pocket_spec import Pocket

SHOP = WebShop(products=60, held_out=8, public=6)
HOUSE = Household(games=20, held_out=6, public=5, size=Rooms(receptacles=5, objects=(4, 6)))


@pytest.mark.parametrize("settings", [SHOP, HOUSE], ids=["webshop", "household"])
def test_no_task_is_in_two_lists(settings):
    app = settings.build()
    lists = [set(x.tolist()) for x in (app.pool, app.held_out, app.public)]
    assert sum(map(len, lists)) == len(set.union(*lists))
    assert len(app.held_out) == settings.held_out
    assert len(app.public) == settings.public
    assert len(app.categories) == len(app.pool)
    env = app.environment.make()
    for task, category in list(zip(app.pool.tolist(), app.categories, strict=True))[:5]:
        assert env.reset(options={"task": task})[1]["task_type"] == category


MANY = Household(games=160, held_out=1, public=150)  # full rooms: some of what a plan opens, its detour has opened


@pytest.mark.parametrize("settings", [SHOP, MANY], ids=["webshop", "household"])
def test_experts_win_with_admissible_commands(settings):
    app = settings.build()
    env = app.environment.make()
    for task in app.public.tolist():
        _, info = env.reset(options={"task": task})
        for command in app.expert(task):
            assert command in info["admissible_commands"]
            *_, info = env.step(command)
        assert info["won"]


def test_household_experts_look_around_first():
    """Some demonstrations go where the thing is not; none of them would otherwise teach to search."""
    app, direct = HOUSE.build(), Household(**{**HOUSE.__dict__, "detours": 0}).build()
    longer = [len(app.expert(t)) - len(direct.expert(t)) for t in app.public.tolist()]
    assert min(longer) >= 0
    assert max(longer) > 0


def test_too_few_tasks():
    with pytest.raises(ValueError, match="too few for 8 held out and 100000 demonstrated"):
        WebShop(products=60, held_out=8, public=100_000).build()
    with pytest.raises(ValueError, match="20 games are too few for 20 demonstrated"):
        Household(games=20, held_out=6, public=20).build()


def test_pocket_is_made_once_and_the_same_each_time(tmp_path, monkeypatch):
    spec = Pocket(SHOP, size=Size(vocabulary=400, width=16, layers=1, heads=2, inner=24), passes=1)
    found = []
    for home in ("a", "b"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        pocket_spec._load_or_make.cache_clear()
        first = spec.first()
        (place,) = (tmp_path / home / "fedrl" / "pocket").iterdir()
        found.append({file.name: file.read_bytes() for file in place.iterdir()})
        made = place.stat().st_mtime_ns
        pocket_spec._load_or_make.cache_clear()
        again = spec.first()
        assert place.stat().st_mtime_ns == made  # read, not made again
        assert all(np.array_equal(first[name], again[name]) for name in first)
    assert found[0] == found[1]
    model = open_model(spec)
    assert set(model.names) == set(spec.first())


def test_imitation_is_what_pocket_starts_from(tmp_path, monkeypatch):
    """An imitating one gives its demonstrations a higher likelihood than one that has seen nothing."""
    from fedrl.llm.imitation import demonstration_sample
    from fedrl.llm.likelihood import likelihood

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    app, levels = SHOP.build(), []
    for passes in (0, 8):
        spec = Pocket(
            SHOP, size=Size(vocabulary=400, width=16, layers=1, heads=2, inner=24), passes=passes, learning_rate=1e-2
        )
        model = open_model(spec)
        samples = [
            demonstration_sample(spec.formatter(), app.environment.make, t, app.expert(t)) for t in app.public.tolist()
        ]
        levels.append(float(likelihood(model, samples).log_prob.mean().detach()))
    assert levels[1] > levels[0] + 0.1


def test_pocket_can_be_made_while_a_program_is_traced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = Pocket(SHOP, size=Size(vocabulary=400, width=16, layers=1, heads=2, inner=24), passes=1, seed=3)
    theta = jax.jit(spec.init)(jax.random.key(0))
    assert all(np.array_equal(theta[name], value) for name, value in spec.first().items())
