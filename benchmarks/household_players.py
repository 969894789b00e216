"""Household games through ALFWorld's own engine and through our player: is every plan's transcript the same, and won?

python benchmarks/household_players.py [--games 300] [--json FILE]        # needs pip install 'fedrl[alfworld]'
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from arguments import parse

from fedrl.llm.household import engine, games, simulator
from fedrl.llm.household.expert import expert
from fedrl.llm.household.game import Game
from fedrl.llm.household.generate import SPLITS, Size

SIZES = {"the recipes' rooms": Size(6, (3, 6)), "rooms of ALFWorld's size": Size()}
LATER = 10  # of so many games one is in rooms of ALFWorld's size, which take the engine a second and more


class Told(NamedTuple):
    """A plan played: what the player said after each command, what it would have allowed then, and the CPU seconds of it."""

    lines: list[tuple[str, list[str]]]
    won: bool
    loading: float
    stepping: float


def play(load: Callable[[Game], Any], game: Game, plan: list[str]) -> Told:
    start = time.process_time()
    player = load(game)
    lines = [(player.reset(), list(player.admissible))]
    loaded = time.process_time()
    for command in plan:
        lines.append((player.step(command), list(player.admissible)))
    return Told(lines, player.won, loaded - start, time.process_time() - loaded)


def compare(size: Size, count: int, real: engine.Engine) -> dict[str, Any]:
    """The first games of every split, each through both players."""
    mine = [game for split in SPLITS for game in games.generated(split, -(-count // len(SPLITS)), size=size)]
    steps, told = 0, []
    for number, game in enumerate(mine):
        plan = expert(game)
        steps += len(plan)
        told.append((play(real.load, game, plan), play(simulator.load, game, plan)))
        print(f"\r{number + 1} of {len(mine)} games", end="", flush=True)
    print("\r", end="")
    speeds = {
        name: {
            "loads_a_second": len(told) / sum(t.loading for t in of),
            "steps_a_second": steps / sum(t.stepping for t in of),
        }
        for name, of in zip(("alfworld", "simulator"), zip(*told, strict=True), strict=True)
    }
    return {
        "games": len(told),
        "steps": steps,
        "won_in_alfworld": sum(theirs.won for theirs, _ in told),
        "same_transcript": sum(one.lines == other.lines for one, other in told),
        **speeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--json", type=Path)
    args = parse(parser, games=1)
    try:
        real = engine.Engine()
    except ImportError as missing:
        raise SystemExit(f"skipped: {missing}") from missing
    found = {}
    for (name, size), count in zip(SIZES.items(), (args.games, -(-args.games // LATER)), strict=True):
        row = found[name] = compare(size, count, real)
        print(
            f"{name}: {row['games']} games, {row['steps']} steps; won through ALFWorld's engine {row['won_in_alfworld']}, "
            f"same transcript {row['same_transcript']}"
        )
        for player in ("alfworld", "simulator"):
            speed = row[player]
            print(
                f"{player:>12}: {speed['steps_a_second']:,.0f} steps and {speed['loads_a_second']:,.1f} games a CPU second"
            )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
