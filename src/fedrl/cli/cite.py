"""`fedrl cite`: BibTeX of what a run used, by its recipe and by the methods that `run.toml` describes."""

from pathlib import Path

from fedrl.experiments import find, orders
from fedrl.experiments.papers import Paper, bibtex, of_description
from fedrl.records import run_toml
from fedrl.records.identity import versions


def cite(path: Path) -> None:
    path = run_toml.folder_of(path)
    content = run_toml.read_config(path)
    papers: list[Paper] = []
    if not run_toml.is_trained(content):
        papers += find.recipe(orders.from_toml(path).recipe).cites
    for folder in [path, *sorted(file.parent for file in path.glob("arms/*/run.toml"))]:
        papers += of_description(run_toml.read_config(folder).get("method"))
    print(bibtex([*papers, _fedrl()]))


def _fedrl() -> Paper:
    title = f"fedrl {versions()['fedrl']}: federated reinforcement learning across clients whose environments differ"
    return Paper("fedrl", title, "{The fedrl authors}", None)
