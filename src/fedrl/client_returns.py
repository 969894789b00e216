"""Returns of a learnt policy client by client: in fresh episodes, exactly in finite MDPs, on held-out tasks for language."""

import html
import io
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console

from fedrl import keys
from fedrl.arguments import at_least, checked
from fedrl.environments.tabular import finite
from fedrl.evaluation import exact_return, sampled_return
from fedrl.keys import Key
from fedrl.records.formatting import number, table
from fedrl.trained import Trained

EPISODES = 20  # per client, by default; language agents play each held-out task once
QUANTILES = (10, 25, 50, 75, 90)  # per cent of clients
MOST_ROWS = 20  # clients in the table
EXACT = "exact discounted return by a linear solve; no episodes are played, so episodes and seed do not matter"
SAMPLED = "mean undiscounted return of {} per client"
HELD_OUT = "share of each part of the held-out tasks that is won, played {}"
WIDTH = 100


class ClientReturns(NamedTuple):
    """Returns [seeds, clients]. Worst client and quantiles are over the clients of a seed, then averaged over seeds."""

    returns: np.ndarray
    how: str  # they were measured
    unit: str = "client"

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def se(self) -> float | None:
        """Standard error of the mean over seeds; None for one seed."""
        by_seed = self.returns.mean(axis=1)
        return float(by_seed.std(ddof=1) / len(by_seed) ** 0.5) if len(by_seed) > 1 else None

    @property
    def worst(self) -> float:
        return float(self.returns.min(axis=1).mean())

    @property
    def quantiles(self) -> dict[str, float]:
        values = np.percentile(self.returns, QUANTILES, axis=1).mean(axis=1)
        return {str(share): float(value) for share, value in zip(QUANTILES, values, strict=True)}

    @property
    def by_client(self) -> np.ndarray:
        """[clients] the mean over seeds."""
        return np.asarray(self.returns.mean(axis=0))

    def summary(self) -> dict[str, Any]:
        names = ("mean", "se", "worst", "quantiles", "by_client")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        stream = io.StringIO()
        console = Console(file=stream, width=WIDTH, highlight=False, markup=False)
        console.print(table(*self._table()))
        return "\n".join([stream.getvalue().rstrip(), *self._more(), self.how])

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        cells = ["".join(f"<td>{html.escape(number(item))}</td>" for item in row) for row in rows]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        notes = "<br>".join(map(html.escape, [*self._more(), self.how]))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"

    def _table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """One row for all clients, then one per client: quantiles are those of its seeds."""
        several = len(self.returns) > 1
        names = ("", "mean", "worst", *(f"{share} %" for share in QUANTILES))
        rows: list[tuple[Any, ...]] = [(f"all {self.unit}s", self.mean, self.worst, *self.quantiles.values())]
        for client in range(min(self.returns.shape[1], MOST_ROWS)):
            mine = self.returns[:, client]
            spread = (mine.min(), *np.percentile(mine, QUANTILES)) if several else ("",) * (1 + len(QUANTILES))
            rows.append((f"{self.unit} {client}", mine.mean(), *spread))
        return names, rows

    def _more(self) -> list[str]:
        rest = self.returns.shape[1] - MOST_ROWS
        lines = [f"… and {rest} more {self.unit}s, in .by_client"] if rest > 0 else []
        if len(self.returns) > 1:
            lines.append(f"{len(self.returns)} seeds; a {self.unit}'s worst and quantiles are over its seeds")
        return lines


@checked
def evaluate(it: Trained, episodes: int | None = None, *, seed: int = 0, deterministic: bool = False) -> ClientReturns:
    """Evaluate by the run's own engine, with random keys of their own; another `seed` plays other episodes."""
    if episodes is not None:
        at_least(1, f"leave it out for {EPISODES}", episodes=episodes)
    if it.language:
        return _on_held_out_tasks(it, episodes or 1, seed, deterministic)
    episodes, exact = episodes or EPISODES, isinstance(jax.eval_shape(it.federation.example), finite.MDP)
    way = exact_return(deterministic=deterministic) if exact else sampled_return(episodes, deterministic=deterministic)
    how = EXACT if exact else SAMPLED.format("1 fresh episode" if episodes == 1 else f"{episodes} fresh episodes")
    found = metrics(it._replace(evaluation=way), (seed,))[0]["measure/returns"]
    return ClientReturns(
        np.asarray(found, np.float64), f"{how}; always the most likely action" if deterministic else how
    )


def metrics(it: Trained, *addresses: tuple[int, ...]) -> list[dict[str, Any]]:
    """What `it.evaluation` measures, once for each address, on which the random draws depend."""
    assert it.evaluation is not None
    found = []
    with closing(it.engine(it.algorithm, it.federation, it.evaluation(it.algorithm, it.federation), 1)) as play:
        for address in addresses:  # environments depend on clients.key, which stays
            fresh = jax.vmap(partial(_key, address))(it.state.key)
            found.append(jax.device_get(play.evaluate(it.state._replace(key=fresh))))
    return found


def _key(address: tuple[int, ...], key: Key) -> Key:
    return keys.of(key, "evaluate", *address)


def _on_held_out_tasks(it: Trained, episodes: int, seed: int, deterministic: bool) -> ClientReturns:
    if deterministic:
        raise ValueError(
            "deterministic takes the most likely action, and language agents choose texts word by word; leave it out"
        )
    found = metrics(it, *((seed, i) for i in range(episodes)))
    won = np.mean([np.asarray(one["measure/returns"], np.float64) for one in found], axis=0)
    return ClientReturns(won, HELD_OUT.format("once" if episodes == 1 else f"{episodes} times"), "part")
