"""`fedrl personalise`: the common policy trained on, on one client alone or on each of them."""

from pathlib import Path

from fedrl.cli import output
from fedrl.experiments.personalisation import KINDS, personalise
from fedrl.experiments.recipe import RecipeError
from fedrl.plots import clients as dots


def carry_out(
    path: Path,
    client: int | None,
    *,
    everyone: bool,
    rounds: int,
    arm: str | None,
    episodes: int,
    trust: bool,
    as_json: bool,
) -> None:
    if everyone == (client is not None):
        raise RecipeError("say whom to personalise: --client 3 for one client, or --all; give one of the two")
    found = personalise(path, client, rounds=rounds, arm=arm, episodes=episodes, trust=trust)
    more = f"{rounds} round{'s' * (rounds != 1)}"
    title = f"{found.arm}: what clients gain by {more} of their own"
    figure = dots.draw(found.returns, found.folder / "figures" / "personal.png", title=title) if everyone else None
    rows = found.summary()
    content = {
        "run": path, "arm": found.arm, "rounds": rounds, "env_steps": found.env_steps, "how": found.how,
        "clients": rows, "returns": found.returns, "folder": found.folder, "figure": figure,
    }  # fmt: skip
    file = output.write(found.folder / "personal.json", content)
    if as_json:
        output.emit(content | {"file": file})
        return
    console = output.screen()
    columns = [word for kind in KINDS for word in (kind, "± s.e.")]
    cells = [[str(row["client"]), *(row[kind][part] for kind in KINDS for part in ("mean", "se"))] for row in rows]
    console.print(output.table(("client", *columns), cells))
    output.say(console)
    steps = found.env_steps
    output.say(
        console,
        f"personal: {found.arm}'s common policy, then {more} on the client alone ({steps['personal']:,.0f} "
        f"environment steps); alone: from scratch, as many rounds ({steps['alone']:,.0f} steps).",
        "dim",
    )
    output.say(console, f"Return: {found.how}; standard errors are over seeds.", "dim")
    output.say(console, f"\nwritten  {file}" + (f"\nfigure   {figure}" if figure else ""))
    whose = "client-I" if everyone else f"client-{client}"
    output.say(console, f"policies {found.folder / whose}, for fedrl.load and `fedrl export`")
