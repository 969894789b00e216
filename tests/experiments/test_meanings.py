"""Every setting of every recipe says what it means, in the source."""

import dataclasses
from dataclasses import dataclass

import pytest
from support.small_recipe import Config as Small

from fedrl.experiments import find, meanings


@pytest.mark.parametrize("name", find.names())
def test_every_setting_has_a_meaning(name):
    config = find.recipe(name).config
    assert [
        field.name for field in dataclasses.fields(config) if not meanings.of_settings(config).get(field.name)
    ] == []


@dataclass
class Base:
    plain: int = 1
    behind: int = 2  # how far
    wide: str = "two lines"  # over two lines
    # above, in
    # two lines
    above: int = 3
    text: str = "# no comment"


@dataclass
class Derived(Base):
    behind: int = 5
    above: int = 7  # another


def test_comments_behind_and_above_and_of_the_base_class():
    assert meanings.of_settings(Base) == {"behind": "how far", "wide": "over two lines", "above": "above, in two lines"}
    assert meanings.of_settings(Derived) == meanings.of_settings(Base) | {"above": "another"}
    assert meanings.of_settings(Small) == {"rounds": "rounds of communication", "kappa": "how far kernels differ"}


def test_a_class_without_source_has_none():
    assert meanings.of_settings(dataclasses.make_dataclass("Made", [("a", int, 1)])) == {}
