"""Weights in memory: read once in a process, however many specs, tellers and adapters are made of them."""

import copy
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from fedrl.llm.models import memory
from fedrl.llm.models.available_memory import room
from fedrl.llm.models.memory import Plan
from fedrl.llm.models.model import Theta, theta_of, trained
from fedrl.llm.models.resolve import found, read


class _Key(NamedTuple):
    name: str
    dtype: torch.dtype
    frozen: bool  # under adapters; else trained, so that they are not what they were
    trust: bool  # whether code of its own was allowed


_nets: dict[_Key, PreTrainedModel] = {}  # at most one frozen and one trained
_came: dict[_Key, Theta] = {}  # all parameters as they came, of at most one that is trained


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def net_of(name: str, plan: Plan) -> PreTrainedModel:
    """A network of its own whose weights are those of all others of this name.

    Where all parameters are trained, they are as the last one left them: whoever acts or learns loads his own first.
    """
    key = _Key(name, plan.dtype, plan.lora is not None, plan.trust)
    _fits(key, plan)
    if key not in _nets:
        _forget(_nets, key)
        net = read(name, plan.dtype, device(), plan.trust)
        if not key.frozen:
            _remember(key, net)
        _nets[key] = net
    net = _nets[key]
    return copy.deepcopy(net, {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())})


def first_of(name: str, plan: Plan) -> Theta:
    """All parameters as they came; where nobody has opened the model yet, only they are kept of it."""
    key = _Key(name, plan.dtype, False, plan.trust)
    if key not in _came:
        _fits(key, plan)
        _remember(key, read(name, plan.dtype, device(), plan.trust))
    return _came[key]


def _fits(key: _Key, plan: Plan) -> None:
    memory.check(key.name, found(key.name, key.trust).config, plan, room(device()), held=key in _nets)


def _remember(key: _Key, net: PreTrainedModel) -> None:
    if key not in _came:
        _came.clear()
        _came[key] = theta_of(trained(net, None, None))  # type: ignore[arg-type]


def _forget(nets: dict[_Key, PreTrainedModel], key: _Key) -> None:
    """Make room for one of its kind."""
    for other in [other for other in nets if other.frozen == key.frozen]:
        del nets[other]
