"""What Flower runs at the server: trains by the agreement, with the sites as engine. `fedrl federation serve` submits it.

Everything it needs is in the server's folder, which an environment variable names: nothing of it travels. A run that was
interrupted continues from its checkpoint, one for every round.
"""

import logging
import secrets

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedrl.engines import cache
from fedrl.engines.driver import engine_of
from fedrl.engines.engine import Engine, Play
from fedrl.engines.versions import about
from fedrl.errors import FedRLError
from fedrl.evaluation import Evaluation
from fedrl.faults import STOP, Faults, leave_out
from fedrl.federations.federation import Federation, Method
from fedrl.organisations import agreement as agreements
from fedrl.organisations import parts, roster
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.executor import discount_of, site_executor
from fedrl.organisations.layout import ServerFiles, server_home
from fedrl.organisations.remote import at_server, evaluation_at_server
from fedrl.organisations.sites import Sites
from fedrl.organisations.status_file import FINISHED, STOPPED, StatusFile
from fedrl.organisations.tables import FileError
from fedrl.records import lock
from fedrl.records.log import Row
from fedrl.records.tensors import write_atomically
from fedrl.records.train_folder import DifferentRun
from fedrl.training import train
from fedrl.types import Algorithm, Exchange

LOG = logging.getLogger("flwr")
EVERY_ROUND = 2**30  # faults in a row after which a client is not asked any more: never, a site may come back

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    files = server_home()
    status, held = StatusFile(files.status), lock.hold(files.state)  # `serve` sees by the lock that this process lives
    if held is None:
        raise RuntimeError(f"{files.state}: another process trains already")
    try:
        play(files, agreements.read(files.agreement), grid, context.run_id, status)
        status.finish(FINISHED)
    except DifferentRun as error:
        status.finish(STOPPED, f"{error.found}; {other_run(files)}")
        raise
    except FedRLError as error:
        status.finish(STOPPED, " ".join(str(error).split()))
        raise
    except Exception as error:
        status.finish(STOPPED, f"{type(error).__name__}: {error} (logs/ has the traceback)")
        raise


def play(files: ServerFiles, agreement: Agreement, grid: Grid, number: int, status: StatusFile) -> None:
    cache.enable()
    keys = roster.read(files.site_keys, agreement)
    built = parts.of(agreement, model=files.model)
    method = described(at_server(built.method), agreement)
    parts.check(built.method(built.federation))
    check_late(agreement, built.method(built.federation))
    status.begin(number, 0, agreement.rounds, {name: site.clients for name, site in agreement.sites.items()})
    sites = Sites(grid, agreement, keys, run_name(files), status)
    sites.about = about()

    def callback(row: Row, rounds: int) -> None:
        LOG.info("round %d of %d%s", row["round"], rounds, f", return {row['return']:.4g}" if "return" in row else "")
        _tell_left_out(status, agreement, row)

    train(
        method,
        built.federation,
        rounds=agreement.rounds,
        seed=agreement.seed,
        out=files.run,
        engine=engine(sites),
        evaluation=described_evaluation(evaluation_at_server(built.evaluation, built.method), agreement),
        eval_every=agreement.eval_every,
        callback=callback,
        warn=LOG.info,
        checkpoint_seconds=0.0,
        faults=rule(agreement),
        store_experiment=False,
    )
    sites.say_goodbye()


def other_run(files: ServerFiles) -> str:
    """What to do if federation.toml has changed so much that the run in the folder is another one."""
    return (
        f"to go on with that run, put back the {files.agreement.name} that it was begun with, here and at every site; to "
        f"begin a new one, move {files.run} away"
    )


def rule(agreement: Agreement) -> Faults:
    rules = agreement.rules
    return leave_out(quorum=rules.quorum, in_a_row=EVERY_ROUND, largest_norm=rules.largest_norm)


def engine(sites: Sites) -> Engine:
    """The engine whose clients' work is done at the sites."""

    def build(
        algorithm: Algorithm,
        federation: Federation,
        evaluation: Exchange,
        eval_every: int = 1,
        faults: Faults = STOP,
        /,
    ) -> Play:
        made = engine_of(lambda _, rule, report_fault: site_executor(sites, algorithm, rule, report_fault))
        return made(algorithm, federation, evaluation, eval_every, faults)._replace(most=1)

    return build


def described(method: Method, agreement: Agreement) -> Method:
    """The method is identified by the agreement's tables, which say all of it."""
    tables = {name: table for name, table in agreement.tables.items() if table}
    privacy = agreement.privacy._asdict() if agreement.privacy else None
    vars(method).update(arguments=(agreement.name, {"tables": tables, "privacy": privacy}))
    return method


def described_evaluation(evaluation: Evaluation, agreement: Agreement) -> Evaluation:
    settings = {"episodes": agreement.episodes, "deterministic": agreement.deterministic}
    vars(evaluation).update(arguments=("evaluation", settings))
    return evaluation


def run_name(files: ServerFiles) -> str:
    """A random name of this run, the same after every restart: sites file their clients' memories under it."""
    path = files.run.with_name("run-name")
    if not path.exists() or not files.run.exists():
        write_atomically(path, secrets.token_hex(8).encode())
    return path.read_text("ascii").strip()


def check_late(agreement: Agreement, algorithm: Algorithm) -> None:
    if discount_of(agreement) is not None and len(algorithm.exchanges) > 1:
        raise FileError(
            f"federation.toml [rules]: late = {agreement.rules.late!r} is for methods with one exchange a round, this one "
            f'has {len(algorithm.exchanges)}: reports would come late, too; write late = "drop"'
        )


def _tell_left_out(status: StatusFile, agreement: Agreement, row: Row) -> None:
    """Who was left out of the round, and why, for `fedrl federation status`."""
    together: dict[tuple[str, str, str], list[int]] = {}
    for one in row.get("left_out", []):
        client = int(one["client"])
        together.setdefault((one["exchange"], agreement.site_of(client), one["why"]), []).append(client)
    for (exchange, site, why), clients in together.items():
        status.left_out(row["round"], exchange, site, clients, why)
