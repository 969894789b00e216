"""A run of a second, for tests of what its folder goes through."""

import re
from pathlib import Path

import pytest
from support.federations import federation

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce

WHERE = federation(3)


def stepping(**changes):
    return fedavg(gradient_learner(reinforce(horizon=4), **({"eta": 0.1, "local_steps": 1} | changes)))


METHOD = stepping()


def train(out: Path, method=METHOD, where=WHERE, **options) -> fedrl.Run:
    return fedrl.train(method, where, **({"rounds": 2, "out": out, "warn": pytest.fail} | options))


def contents(folder: Path) -> dict:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def refused(out: Path, *arguments, **options) -> str:
    before = contents(out)
    with pytest.raises(ValueError, match=re.escape(str(out))) as caught:
        train(out, *arguments, **options)
    assert contents(out) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def as_of_an_earlier_version(folder: Path, seeds: str = '{"first": 0, "count": 1}') -> None:
    (folder / "run.toml").unlink()
    (folder / "seeds.json").write_text(seeds)
