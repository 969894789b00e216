"""`fedrl play`: one episode of one client with the learnt policy, as a GIF or an MP4."""

from pathlib import Path

from rich.progress import track

from fedrl.cli import output
from fedrl.experiments import restore
from fedrl.experiments.recipe import RecipeError
from fedrl.plots import mujoco_scene
from fedrl.rendering import clip_of_client
from fedrl.rendering.clip_of_client import Pictures


def play(
    path: Path,
    client: int,
    out: Path | None,
    *,
    arm: str | None,
    seed: int,
    steps: int | None,
    best: bool,
    trust: bool = False,
) -> None:
    mujoco_scene.prepare()
    run = restore.run(path, arm, first=True, trust=trust, best=best)
    if not run.arms:
        raise RecipeError(f"{run.name} trains nothing that could be played; pass a run of another recipe")
    name, it = next(iter(run.arms.items()))
    if it.language:
        raise RecipeError(f"{path} is a run of language agents, whose episodes are text; give --task 0")
    count = it.federation.count
    if not 0 <= client < count:
        raise RecipeError(f"there is no client {client}; {run.name} has {count}, from 0 to {count - 1}")
    console = output.screen()

    def watch(pictures: Pictures, total: int) -> Pictures:
        return track(pictures, "drawing", total, console=console, transient=True, disable=not console.is_terminal)

    target = out or run.path / "figures" / clip_of_client.file_name(client, best)
    clip = clip_of_client.draw(it, client, target, seed=seed, steps=steps, watch=watch)
    output.say(console, f"{name}, client {client} {clip.differs}".rstrip(), "bold")
    output.say(
        console, f"{clip.steps} steps, return {clip.earned:.1f}, policy of seed {run.seed} after round {it.round}"
    )
    pace = f"{clip.shown.rate:.0f} frames per second, {clip.shown.speed:.1f} times real speed"
    output.say(console, f"\nclip     {clip.path} ({len(clip.shown.steps)} frames, {pace})")
