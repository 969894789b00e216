"""`fedrl cite`: the papers of a recipe and of the methods that run.toml describes, and fedrl."""

import re

from support.command_line import call

TRAINED = 'kind = "train"\n[method]\nfunction = "fedavg"\n[method.learner]\nfunction = "trpo"\n'


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(\w+),$", text, flags=re.M)


def test_a_recipes_papers_come_first_then_those_of_its_methods(tmp_path, capsys):
    (tmp_path / "arms" / "A").mkdir(parents=True)
    (tmp_path / "run.toml").write_text('recipe = "xie2025/fig2"\n')
    (tmp_path / "arms" / "A" / "run.toml").write_text(TRAINED)
    assert call("cite", tmp_path) == 0
    assert keys(capsys.readouterr().out) == ["xie2025", "mcmahan2017", "schulman2015", "fedrl"]


def test_a_run_of_train_is_cited_by_what_it_describes(tmp_path, capsys):
    (tmp_path / "run.toml").write_text(TRAINED)
    assert call("cite", tmp_path / "run.toml") == 0
    said = capsys.readouterr().out
    assert keys(said) == ["mcmahan2017", "schulman2015", "fedrl"]
    assert "author = {{The fedrl authors}}" in said


def test_a_folder_without_a_run_is_one_sentence(tmp_path, capsys):
    assert call("cite", tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1
