"""A run played again in one process, without those who were left out of it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from fedrl.core.client import WorkResult
from fedrl.core.round import WorkRequest
from fedrl.engines.client_results import ClientResults, collecting_executor, present_slots
from fedrl.engines.client_work import client_work
from fedrl.engines.driver import ClientExecutor, engine_of
from fedrl.engines.engine import Engine
from fedrl.engines.one_at_a_time import _one_client
from fedrl.environments.errors import EnvironmentFailed
from fedrl.faults import ClientFault, FaultCode
from fedrl.records import log
from fedrl.rollouts import host
from fedrl.types import Exchange

Absence = tuple[int, str, int]  # round, exchange, client
ABSENT = ClientFault(FaultCode.ABSENT, EnvironmentFailed("it was left out of the run that is played again"))


def absences(run: Path) -> set[Absence]:
    """Who was left out of a run, by its log."""
    rows = log.read(run / "log.jsonl")
    return {(row["round"], one["exchange"], one["client"]) for row in rows for one in row.get("left_out", [])}


def theta_of(policy: Path) -> dict[str, bytes]:
    """The common part of a policy.safetensors: of the clients' own filters the server sees nothing."""
    return {name: value.tobytes() for name, value in load_file(policy).items() if name.startswith("theta")}


def ending(run: Path) -> tuple[dict[str, bytes], str]:
    """What a run ends with, without times and the reasons why somebody was left out."""
    drop = ("seconds", "left_out")
    rows = [{name: x for name, x in row.items() if name not in drop} for row in log.read(run / "log.jsonl")]
    return theta_of(run / "policy.safetensors"), json.dumps(rows)


def leaving_out(absent: set[Absence]) -> Engine:
    """`one_at_a_time`, in which these fail, each in its round and exchange only."""

    def make(exchanges, faults, report_fault) -> ClientExecutor:
        work = {exchange.name: client_work(exchange) for exchange in exchanges}
        evaluated = [0]  # how often: there is one evaluation before the first round and one after every round

        def perform(exchange: Exchange, request: WorkRequest) -> ClientResults:
            round = evaluated[0]
            if request.address[0] == "round":
                round = int(request.address[1]) + 1
            elif request.address[0] != "opening":
                evaluated[0] += 1
            ids = np.asarray(request.cohort.ids)
            return {
                slot: ABSENT
                if (round, exchange.name, int(ids[slot])) in absent
                else _one_client(work[exchange.name], exchange.name, request, faults, slot)
                for slot in present_slots(request)
            }

        def perform_all(
            exchange: Exchange, requests: Sequence[WorkRequest], expected: WorkResult
        ) -> list[ClientResults]:
            return [perform(exchange, request) for request in requests]

        return ClientExecutor(collecting_executor(perform_all, faults, report_fault), host.close_all)

    return engine_of(make)
