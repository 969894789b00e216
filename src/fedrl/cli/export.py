"""`fedrl export`: a learnt policy as a file or folder that needs nothing of fedrl."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fedrl.cli import agents, output
from fedrl.experiments import orders, outcomes, restore
from fedrl.experiments.orders import Order
from fedrl.export import AGENTS, SUFFIXES, ExportError, ExportReport, format_of
from fedrl.export import export as export_policy
from fedrl.export.check import Agreement
from fedrl.export.episodes import of_run
from fedrl.loading import load
from fedrl.organisations.folders import is_site
from fedrl.organisations.layout import SiteFiles
from fedrl.policies.saved import SavedPolicy
from fedrl.policies.saved import read as read_policy
from fedrl.records import run_toml
from fedrl.records.run_toml import RunFolderError
from fedrl.trained import Trained

Restore = Callable[[], Trained]


class Source(NamedTuple):
    """A policy in a run's folder, and the recipe's order and arm that learnt it, if it was a recipe's."""

    place: Path  # where its file is
    home: Path  # the run's folder
    order: Order | None = None
    name: str = ""


def export(
    path: Path,
    format: str | None,
    out: Path | None,
    *,
    arm: str | None,
    seed: int,
    client: int | None,
    best: bool,
    play: bool,
    as_json: bool,
    trust: bool = False,
) -> None:
    source = find(path, arm)
    console = output.screen(stderr=as_json)
    if source.order is not None and agents.is_language(source.order):
        from fedrl.cli import export_agents

        if format is None:
            raise ExportError(f"say how to write a language agent: --format {' or '.join(AGENTS)}")
        target = out or source.place / (f"{format}-best" if best else format)
        export_agents.export_agent(source.order, source.home, source.name, format, target, seed, best, as_json)
        return
    policy, restored = _at_site(path, best) if is_site(path) else _of_run(source.place, best, trust)
    if policy.header["policy"]["kind"] == "language-model" and run_toml.is_of_organisations(source.place):
        raise ExportError(
            f"{source.place} has a language agent, whose adapter is at every site, in the folder adapter, as peft reads it"
        )
    if client is None and source.order is not None:
        _check_common(policy, source.order, source.name)
    if format is None and out is None:
        raise ExportError(
            f"say how to write the policy: --format {', '.join(SUFFIXES)}, or --out with such a file's name"
        )
    format = format_of(out or Path(), format)
    target = out or source.place / f"{'best' if best else 'policy'}{SUFFIXES[format]}"
    with console.status(f"exporting to {target} …"):
        report = export_policy(
            policy, target, format, client=client, seed=seed, origin=origin(source),
            episodes=of_run(restored, client, seed, allowed=play),
        )  # fmt: skip
    if as_json:
        output.emit(as_content(report))
        return
    tell(console, report)


def find(path: Path, arm: str | None) -> Source:
    """The policy of the arm `arm` (None: the first) of a recipe's run, or that of `fedrl.train`."""
    home, arm = restore.place_of(path, arm)
    if (home / "run.toml").exists() and not run_toml.is_trained(run_toml.read_config(home)):
        order = orders.from_toml(home)
        name = next(iter(restore.arms(order, arm)))
        return Source(outcomes.finished(home, name), home, order, name)
    if arm is not None:
        raise ExportError(f"{home} has no arms, so there is no arm {arm!r}; leave --arm out")
    return Source(home if is_site(home) else load(home).folder or home, home)


def _of_run(place: Path, best: bool, trust: bool) -> tuple[SavedPolicy, Restore]:
    run = restore.load(place, trust=trust)
    return run.policy_file(best), run.restore


def _at_site(folder: Path, best: bool) -> tuple[SavedPolicy, Restore]:
    """The common policy, which a site keeps without the run's log."""
    files = SiteFiles(folder)
    if best:
        raise ExportError(f"{folder} is a site's, which has the newest policy only; leave --best out")
    if not files.policy.exists():
        raise ExportError(
            f"{folder} has no policy yet; it comes with the first evaluation that the site takes part in: "
            f"fedrl federation join {folder}"
        )
    if files.adapter.exists():
        raise ExportError(
            f"{folder} has a language agent, whose adapter is in {files.adapter} as peft reads it; take it from there"
        )

    def elsewhere() -> Trained:
        raise RunFolderError("a site's environment is opened by `fedrl federation join` only")

    return read_policy(files.policy), elsewhere


def _check_common(policy: SavedPolicy, order: Order, name: str) -> None:
    """An arm may be without a common policy, going alone for one, which is often a run's first arm."""
    if policy.header.get("own_tensors") and not policy.header.get("tensors"):
        others = ", ".join(repr(arm) for arm in restore.arms(order) if arm != name)
        raise ExportError(
            f"in the arm {name!r} every client has learnt a policy of its own; choose one with --client 0 to "
            f"{policy.header['clients'] - 1}" + (f", or another arm with --arm: {others}" if others else "")
        )


def origin(source: Source) -> dict[str, Any]:
    return {"recipe": source.order.recipe, "arm": source.name} if source.order else {}


def tell(console: Any, report: ExportReport) -> None:
    output.say(console, f"{report.format}: {_in_words(report.drawn)} on {report.drawn.observations:,} observations")
    if report.played:
        played = report.played
        output.say(
            console,
            f"{played.episodes} episodes, {played.steps:,} steps, mean return {played.mean_return:.1f}: "
            f"{_in_words(played.agreement)}",
        )
    else:
        output.say(console, f"no episodes were played: {report.not_played}", "dim")
    output.say(console, f"\nwritten  {report.path} ({report.path.stat().st_size / 1000:,.0f} kB)")


def _in_words(found: Agreement) -> str:
    if found.different:
        return f"{found.different} of the actions differ, all of them ties; largest difference {found.parameters:.1e}"
    return f"same actions, largest difference {max(found.parameters, found.actions):.1e}"


def as_content(report: ExportReport) -> dict[str, Any]:
    played = report.played
    return {
        "file": report.path,
        "format": report.format,
        "drawn": report.drawn._asdict(),
        "played": played._asdict() | {"agreement": played.agreement._asdict()} if played else None,
        "not_played": report.not_played,
    }
