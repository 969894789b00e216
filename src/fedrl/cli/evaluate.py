"""`fedrl evaluate`: returns of the learnt policies client by client, in fresh episodes."""

from pathlib import Path

from fedrl import client_returns
from fedrl.cli import evaluate_agents, output
from fedrl.client_returns import EPISODES, QUANTILES, ClientReturns
from fedrl.experiments import restore
from fedrl.experiments.outcomes import arm_folder
from fedrl.experiments.recipe import RecipeError
from fedrl.plots import clients as dots


def evaluate(
    path: Path,
    *,
    episodes: int | None,
    arm: str | None,
    seed: int,
    deterministic: bool,
    best: bool,
    as_json: bool,
    trust: bool = False,
) -> None:
    if episodes is not None and episodes < 1:
        raise RecipeError(f"--episodes expects a whole number of at least 1, got {episodes}; try --episodes {EPISODES}")
    run = restore.run(path, arm, trust=trust, best=best)
    name = _file_name(restore.place_of(path, arm)[1], best)
    if any(it.language for it in run.arms.values()):
        if deterministic:
            raise RecipeError(
                "--deterministic takes the most likely action, and language agents choose texts word by word; leave it out"
            )
        evaluate_agents.evaluate(run, episodes=episodes or 1, seed=seed, best=best, name=name, as_json=as_json)
        return
    console = output.screen(stderr=as_json)
    if run.note:
        output.say(console, f"note: {run.note}", "yellow")
    found: dict[str, ClientReturns] = {}
    for arm, it in run.arms.items():
        with console.status(f"evaluating {arm} …"):
            found[arm] = client_returns.evaluate(it, episodes, seed=seed, deterministic=deterministic)
    title = f"{run.name}: return of each client " + ("with the best policy" if best else "after training")
    figure = dots.draw(
        {arm: it.returns for arm, it in found.items()}, run.path / "figures" / f"{name}.png", title=title
    )
    content = {
        "run": run.path,
        "recipe": run.name,
        "seed": seed,
        "deterministic": deterministic,
        "best": best,
        "arms": {
            arm: {"round": run.arms[arm].round, "how": it.how} | it.summary() | {"returns": it.returns}
            for arm, it in found.items()
        },
        "figure": figure,
    }
    file = output.write(run.path / f"{name}.json", content)
    if as_json:
        output.emit(content | {"file": file})
        return
    rows = [(arm, it.mean, it.se, it.worst, *it.quantiles.values()) for arm, it in found.items()]
    columns = ("arm", "return", "± s.e.", "worst client", *(f"{share} %" for share in QUANTILES))
    console.print(output.table(columns, rows))
    output.say(console)
    for method in dict.fromkeys(it.how for it in found.values()):
        output.say(console, f"Return: {method}.", "dim")
    if best:
        rounds = ", ".join(f"{arm} {it.round}" for arm, it in run.arms.items())
        output.say(console, f"With the best policy of each arm, of round: {rounds}.", "dim")
    output.say(console, "Worst client and quantiles are over the clients of a seed, then averaged over seeds.", "dim")
    output.say(console, f"\nwritten  {file}\nfigure   {figure}")


def _file_name(arm: str | None, best: bool) -> str:
    """One arm's evaluation does not replace that of all arms."""
    return "evaluation" + ("-best" if best else "") + (f"-{arm_folder(Path(), arm).name}" if arm else "")
