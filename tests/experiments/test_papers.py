"""Papers as BibTeX, and which of them a method's description leads to."""

from pathlib import Path

import fedrl
from fedrl.experiments.papers import FROM, PAPERS, Paper, bibtex, of_description


def test_every_function_is_there_and_leads_to_a_paper():
    source = "".join(file.read_text() for file in Path(fedrl.__file__).parent.rglob("*.py"))
    assert [name for name in FROM if f"\ndef {name}(" not in source] == []
    assert set(FROM.values()) <= set(PAPERS)


def test_entries_say_where_they_were_published():
    entry = PAPERS["xie2025"].bibtex()
    assert entry.startswith("@article{xie2025,\n  title = {{Client Selection for Federated Policy Optimization")
    assert "  journal = {Journal of Machine Learning Research},\n" in entry
    assert "  eprint = {2305.10978},\n  archivePrefix = {arXiv},\n" in entry
    assert PAPERS["wang2024"].bibtex().startswith("@inproceedings{")
    assert PAPERS["labbi2025"].bibtex().startswith("@misc{")
    assert (
        bibtex([Paper("a", "T", "A", None), Paper("a", "T", "A", None)])
        == "@misc{a,\n  title = {{T}},\n  author = {A},\n}"
    )


def test_a_description_leads_to_its_papers_in_order():
    learner = {"function": "ppo", "policy": {"function": "gaussian_mlp"}}
    method = {"function": "fedavg", "learner": learner, "selection": {"function": "fedpohcs"}, "combine": "median"}
    assert [paper.key for paper in of_description(method)] == ["mcmahan2017", "schulman2017", "xie2025", "yin2018"]
    adaptive = {"function": "fedavg", "server": "GradientTransformationExtraArgs"}
    assert [paper.key for paper in of_description(adaptive)] == ["mcmahan2017", "reddi2021"]
    assert of_description(None) == []
