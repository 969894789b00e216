"""What cannot be exported, and what fails its check, leaves no file and is said in one sentence."""

import os
import sys

import numpy as np
import pytest
from gymnasium.spaces import Box
from support.saved_policies import BOX, every_kind, gaussian, saved

import fedrl
from fedrl.export import ExportError, check, export, numpy_file
from fedrl.export.check import Agreement
from fedrl.export.program import program

KINDS = every_kind()
GAUSSIAN = {"kind": "gaussian-mlp", "layers": [3, 1], "activation": "tanh"}


def refused(path, *arguments, match, **options):
    with pytest.raises(ValueError, match=match) as caught:
        export(KINDS["categorical"], path, *arguments, **options)
    assert "\n" not in str(caught.value)
    assert not path.is_file()


def test_mistakes(tmp_path):
    refused(tmp_path / "policy.onx", match="says no format, expected a suffix of .py")
    refused(tmp_path / "policy.py", "nunpy", match="there is no format 'nunpy'; did you mean 'numpy'")
    refused(tmp_path / "policy.py", "peft", match="for language agents")
    refused(tmp_path, "numpy", match="is a folder")
    refused(tmp_path / "policy.py", client=9, match="client must be a number from 0 to 2")
    refused(tmp_path / "policy.py", seed=1, match="seed counts")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="file exists and is not an export that could be replaced; pass another path"):
        export(KINDS["categorical"], tmp_path / "file", "numpy")
    assert (tmp_path / "file").read_text() == ""
    (tmp_path / "nowhere.py").symlink_to(tmp_path / "gone.py")
    refused(tmp_path / "nowhere.py", match="is not an export that could be replaced")
    os.mkfifo(tmp_path / "pipe.py")  # as /dev/null is no file: root could replace it
    refused(tmp_path / "pipe.py", match="is not an export that could be replaced")
    assert (tmp_path / "pipe.py").is_fifo()
    refused(tmp_path / "file" / "policy.py", match="cannot write .*policy.py")


@pytest.mark.parametrize(
    ("package", "path", "install"),
    [("onnxruntime", "policy.onnx", "fedrl.export."), ("torch", "policy.pt2", "torch>=2.13")],
)
def test_what_is_not_installed(package, path, install, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    refused(tmp_path / path, match=f"needs {package}, which is not installed; pip install '{install}")


def test_a_wrong_export_is_not_written(tmp_path, monkeypatch):
    whole = numpy_file._data
    monkeypatch.setattr(numpy_file, "_data", lambda it: whole(it._replace(clip=1.0)))  # a real mistake: another clip
    refused(
        tmp_path / "policy.py",
        match="the numpy export differs from the policy on 10000 observations .* no file was written",
    )


def test_agreement():
    fine = Agreement(10, 9e-7, 0.0, 0, 0, 1e-7)
    assert fine.holds
    assert not fine._replace(parameters=2e-6).holds
    assert fine._replace(parameters=2e-6, rounding=1.5e-6).holds  # the network itself is no more precise
    assert not fine._replace(actions=2e-6).holds
    assert not fine._replace(different=2, ties=1).holds
    assert fine._replace(different=2, ties=2).holds


def test_ties_and_differences_are_counted():
    saved = KINDS["softmax"]
    table = np.zeros((6, 3), np.float32)
    table[1:] = [0.0, 1.0, 2.0]
    saved = saved._replace(tensors={"theta/value": table[None]})
    act = saved.policy()
    steps = program(act, 0.0, {})
    states = np.arange(-1, 5)

    def other(observations):
        actions = act(observations).copy()
        actions[0], actions[2] = 2, 0  # a tie, and a mistake
        return actions, act.parameters(observations)

    found = check.compare(act, other, steps, states)
    assert (found.different, found.ties) == (2, 1)
    assert not found.holds


@pytest.mark.parametrize(("dtype", "most", "step"), [(np.uint16, 60_000, 1), (np.float16, 1, 2**-11)])
def test_a_half_may_be_rounded_either_way(dtype, most, step):
    """Means a rounding error apart may end as neighbours in the dtype of the actions, and no further apart."""
    rng, box = np.random.default_rng(0), Box(0, most, (1,), dtype)
    act = saved(BOX, box, GAUSSIAN, gaussian(rng, [3, 1]), rescale=True).policy()
    drawn = check.draw(steps := program(act, 0.0, {}), 2000, rng)
    (layer,) = act.actor.layers
    near = act._replace(actor=act.actor._replace(layers=(layer._replace(bias=layer.bias + np.float32(2e-7)),)))
    assert 0 < (near(drawn) != act(drawn)).sum() < 200

    def compared(actions):
        return check.compare(act, lambda observations: (actions, act.parameters(observations)), steps, drawn)

    assert compared(near(drawn)).holds
    whole = compared(np.minimum(act(drawn) + dtype(step), dtype(most)))
    assert whole.actions == pytest.approx(step / most, rel=0.1)
    assert not whole.holds


def test_drawn_observations_are_in_their_space():
    for kind, policy in KINDS.items():
        act = policy.policy()
        drawn = check.draw(program(act, 5.0, {}), 200, np.random.default_rng(0))
        assert len(act(drawn)) == 200, kind
    states = check.draw(program(KINDS["softmax"].policy(), 0.0, {}), 200, np.random.default_rng(0))
    assert set(states.tolist()) == set(range(-1, 5))


def test_an_unfinished_run_and_another_version(tmp_path):
    with pytest.raises(ValueError, match="has no policy.safetensors; a run writes it when it is finished"):
        fedrl.load(tmp_path)
    assert issubclass(ExportError, ValueError)
    header = KINDS["softmax"].header | {"policy": {"kind": "new-table"}}  # its arrays are not read
    with pytest.raises(ValueError, match="a policy of kind 'new-table' does not act"):
        export(KINDS["softmax"]._replace(tensors={}, header=header), tmp_path / "policy.py")
