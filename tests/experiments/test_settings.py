"""Settings from text and from a `run.toml`: each kind arrives as its field declares it, and comes back equal."""

from dataclasses import asdict, dataclass

import pytest

from fedrl.experiments.recipe import Recipe, RecipeError
from fedrl.experiments.settings import configure


@dataclass(frozen=True)
class Config:
    eta: float = 1
    etas: tuple[float, ...] = (1, 2)
    mixed: tuple[str, int] = ("x", 1)
    wide: tuple = (1, 2.5)
    fast: bool = False


RECIPE = Recipe("ours", "nothing", 0.1, 1, Config, build=lambda config: {}, claims=lambda config, arms: [])


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        ("eta", "0.5", 0.5),
        ("etas", "0.5,3,7", (0.5, 3.0, 7.0)),
        ("mixed", "y,2", ("y", 2)),
        ("wide", "3,0.5", (3, 0.5)),
        ("fast", "True", True),
    ],
)
def test_text_becomes_what_the_field_declares(setting, text, value):
    config = configure(RECIPE, paper=False, overrides={setting: text})
    assert getattr(config, setting) == value
    assert repr(getattr(config, setting)) == repr(value)


def test_what_run_toml_holds_comes_back_equal():
    held = {name: list(it) if isinstance(it, tuple) else it for name, it in asdict(Config()).items()}
    assert configure(RECIPE, paper=False, overrides=held) == Config()


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        ("eta", "nan", r"setting eta expects a number \(now 1.0\), got 'nan'"),
        ("mixed", "y,z", r"setting mixed expects a list like x,1 \(now .*, got 'y,z'; try --set mixed=x,1"),
    ],
)
def test_what_no_run_can_have_is_refused(setting, text, expected):
    with pytest.raises(RecipeError, match=expected):
        configure(RECIPE, paper=False, overrides={setting: text})
