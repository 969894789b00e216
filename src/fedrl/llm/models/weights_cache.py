"""Weights in memory: read once per process, however many specs, formatters and adapters use them."""

import copy
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from fedrl.llm.models import memory
from fedrl.llm.models.available_memory import available_memory
from fedrl.llm.models.memory import Plan
from fedrl.llm.models.model import Theta, make_trainable, theta_of
from fedrl.llm.models.resolve import read_weights, resolve


class _Key(NamedTuple):
    name: str
    dtype: torch.dtype
    frozen: bool  # under adapters; otherwise they are trained and change
    trust: bool  # whether code of its own was allowed


_nets: dict[_Key, PreTrainedModel] = {}  # at most one frozen and one trained
_initial: dict[_Key, Theta] = {}  # the original parameters, of at most one trained model


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def shared_net(name: str, plan: Plan) -> PreTrainedModel:
    """A separate network that shares its weights with all others of this name.

    If all parameters are trained, they are as the last user left them; callers load their own theta before use.
    """
    key = _Key(name, plan.dtype, plan.lora is not None, plan.trust)
    _check_memory(key, plan)
    if key not in _nets:
        _evict(_nets, key)
        net = read_weights(name, plan.dtype, device(), plan.trust)
        if not key.frozen:
            _store_initial(key, net)
        _nets[key] = net
    net = _nets[key]
    return copy.deepcopy(net, {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())})


def initial_theta(name: str, plan: Plan) -> Theta:
    """The original parameters; if the model has not been opened yet, nothing else of it is kept."""
    key = _Key(name, plan.dtype, False, plan.trust)
    if key not in _initial:
        _check_memory(key, plan)
        _store_initial(key, read_weights(name, plan.dtype, device(), plan.trust))
    return _initial[key]


def _check_memory(key: _Key, plan: Plan) -> None:
    memory.check(key.name, resolve(key.name, key.trust).config, plan, available_memory(device()), held=key in _nets)


def _store_initial(key: _Key, net: PreTrainedModel) -> None:
    if key not in _initial:
        _initial.clear()
        _initial[key] = theta_of(make_trainable(net, None, None))


def _evict(nets: dict[_Key, PreTrainedModel], key: _Key) -> None:
    """Drop the network of the same kind (frozen or trained)."""
    for other in [other for other in nets if other.frozen == key.frozen]:
        del nets[other]
