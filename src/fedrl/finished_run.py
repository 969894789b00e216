"""A finished run: returned by `fedrl.train`, or read from its folder by `fedrl.load` (`loading.py`)."""

import html
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedrl import client_returns, trained
from fedrl.client_returns import ClientReturns
from fedrl.policies.saved import Act, SavedPolicy
from fedrl.records import log
from fedrl.records.formatting import number
from fedrl.records.log import Row
from fedrl.records.rows import of_each
from fedrl.trained import Trained
from fedrl.trees import Tree

if TYPE_CHECKING:
    from fedrl.export import ExportReport


class Run(NamedTuple):
    rows: list[Row]  # the log
    theta: (
        Tree  # the learnt parameters, with a leading seed axis; after `fedrl.load`, by their names in the policy file
    )
    returns: np.ndarray  # [seeds, clients] at the end
    folder: Path | None
    saved: SavedPolicy
    best: SavedPolicy | None  # the policy of the best evaluation, by the mean return over seeds and clients
    restore: Callable[[], Trained]  # the federation after training, to act in it again

    def policy(
        self,
        client: int | None = None,
        seed: int = 0,
        deterministic: bool = True,
        *,
        best: bool = False,
        observation_space: Any = None,
        action_space: Any = None,
    ) -> Act:
        """The learnt policy as a function of NumPy observations: `action = run.policy()(observation)`, one or many.

        `client=None` acts like a client that was not in the federation. `seed` counts the run's seeds from 0. With
        `deterministic=False` actions are sampled; noise that training held for several steps is held for as many calls.
        `best=True` is the policy of the best evaluation instead of the last round's. `observation_space` and
        `action_space` are for a new client, if clients' bounds differ.
        """
        return self.policy_file(best).policy(
            client, seed, deterministic, observation_space=observation_space, action_space=action_space
        )

    def policy_file(self, best: bool = False) -> SavedPolicy:
        """The last or the best policy as it is in its file; a ValueError if the best was not kept."""
        if best and self.best is None:
            raise ValueError(
                "the best policy of this run was not kept; train with keep_best=True (a recipe: fedrl run --keep-best), or "
                "leave out best"
            )
        return self.best if best and self.best else self.saved

    def trained(self, best: bool = False) -> Trained:
        """The federation after training, its clients acting with the last or the best policy."""
        policy = self.policy_file(best)
        return trained.acting_with(self.restore(), policy) if best else self.restore()

    def export(
        self,
        path: str | Path,
        format: str | None = None,
        *,
        client: int | None = None,
        seed: int = 0,
        best: bool = False,
        play: bool = True,
        observation_space: Any = None,
        action_space: Any = None,
    ) -> "ExportReport":
        """Write the policy as a file that needs no fedrl: "numpy" (.py), "onnx" or "torch" (.pt2); None: as `path` ends.

        It is compared with `policy()` first, on 10,000 observations and in ten episodes that it plays in the client's
        environment (client 0's for a new client); the report says why if none could be played. `play=False` leaves the
        environment alone: it may be hardware. `client`, `seed`, `best` and the spaces are as there.
        """
        from fedrl.export import export
        from fedrl.export.episodes import of_run

        return export(
            self.policy_file(best), path, format, client=client, seed=seed,
            episodes=of_run(self.restore, client, seed, allowed=play),
            observation_space=observation_space, action_space=action_space,
        )  # fmt: skip

    def evaluate(
        self, episodes: int | None = None, deterministic: bool = False, seed: int = 0, *, best: bool = False
    ) -> ClientReturns:
        """Returns of every client in `episodes` fresh episodes each (20), with the policy of the last round or the `best`.

        Another `seed` plays other episodes. Finite MDPs are solved exactly; language agents play their held-out tasks.
        """
        return client_returns.evaluate(self.trained(best), episodes, seed=seed, deterministic=deterministic)

    def play(
        self,
        client: int = 0,
        path: str | Path | None = None,
        *,
        seed: int = 0,
        steps: int | None = None,
        best: bool = False,
    ) -> Path:
        """One episode of a client with its last or `best` policy, as a .gif or .mp4 (figures/client-0.gif)."""
        from fedrl.rendering import clip_of_client

        target = Path(path or (self.folder or Path(".")) / "figures" / clip_of_client.file_name(client, best))
        return clip_of_client.draw(self.trained(best), client, target, seed=seed, steps=steps).path

    def frame(self) -> Any:
        """The log as a pandas frame, one row per round."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "a frame needs pandas, which is not installed; pip install 'fedrl[frames]', or use run.rows",
                name="pandas",
            ) from None
        return pandas.DataFrame(log.plain("rows", self.rows))

    def returns_by_client(self) -> np.ndarray:
        """Mean final return of each client over the seeds."""
        return of_each(self.returns)

    def plot(self, path: str | Path | None = None) -> Path:
        """Draw the learning curve to `path`, by default beside the log."""
        from fedrl.plots.curves import draw

        target = Path(path or (self.folder or Path(".")) / "figures" / "return.png")
        return draw({"": self.rows}, target)

    def __repr__(self) -> str:
        last, header = self.rows[-1], self.saved.header
        count, place = header["seeds"]["count"], f", in {self.folder}" if self.folder else ""
        best = f", best {number(self._best_return())} in round {self.best.header['rounds']}" if self.best else ""
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        return (
            f"Run({header['method']}, {header['clients']} clients, {seeds}, {last['round']} rounds, "
            f"return {number(last.get('return'))}{best}{place})"
        )

    def _best_return(self) -> Any:
        best = self.best.header["rounds"] if self.best else None
        return next((row["return"] for row in self.rows if row["round"] == best and "return" in row), None)

    def _repr_html_(self) -> str:
        """The learning curve and the final returns, for notebooks."""
        with tempfile.TemporaryDirectory() as folder:
            svg = self.plot(Path(folder) / "return.svg").read_text(encoding="utf-8")
        final = ClientReturns(self.returns, "final returns, measured as in training")
        return f"<p><b>{html.escape(repr(self))}</b></p>{svg[svg.index('<svg') :]}{final._repr_html_()}"
