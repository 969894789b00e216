"""`fedrl export` of language agents: an adapter, or a whole model."""

from pathlib import Path

from fedrl.cli import agents, output
from fedrl.experiments.orders import Order


def export_agent(
    order: Order, path: Path, arm: str, format: str, out: Path, seed: int, best: bool, as_json: bool
) -> None:
    agent = agents.trained_agent(order, path, arm, seed, best=best)
    from fedrl.llm import export as exporting

    console = output.screen(stderr=as_json)
    with console.status(f"exporting to {out} …"):
        report = exporting.export(agent.study.spec, agent.theta, out, format)
    if as_json:
        output.emit(report._asdict())
        return
    output.say(
        console,
        f"{format}: largest difference of logits {report.difference:.1e} on {report.tokens} tokens, largest logit "
        f"{report.largest:.1f}",
    )
    output.say(console, f"\nwritten  {report.folder}")
