"""Every kind of policy in every format: the file alone, in a process without fedrl, acts as the policy does."""

import ast
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from support.saved_policies import every_kind

from fedrl.export import SUFFIXES, check, export
from fedrl.export.program import arrays_of, program

KINDS = every_kind()
FEW = ("categorical", "multi", "gaussian", "greedy")  # for torch, which takes a second or more for each

# What a stranger does with each file, given the arrays of the observations by name; without fedrl, JAX and each other.
READERS = {
    "numpy": """
        import importlib.util
        spec = importlib.util.spec_from_file_location("policy", path)
        policy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(policy)
        results = [policy.act(observations), policy.act(observations, np.random.default_rng(3)), policy.act(first)]
    """,
    "onnx": """
        import onnxruntime
        session = onnxruntime.InferenceSession(path)
        results = session.run(["action"], arrays)
    """,
    "torch": """
        import torch
        results = [torch.export.load(path).module()(*map(torch.from_numpy, arrays.values()))[0].numpy()]
    """,
}
STRANGER = """
import pickle, sys
{paths}
import numpy as np
for path, (observations, first, arrays) in pickle.load(open(sys.argv[1], "rb")).items():
{reader}
    pickle.dump(results, open(path + ".result", "wb"))
assert not {{"fedrl", "jax", "onnx"}} & set(sys.modules)
"""


@pytest.fixture(scope="module", params=SUFFIXES)
def format(request):
    if request.param == "onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param


@pytest.fixture(scope="module")
def strangers(format, tmp_path_factory):
    """By kind: what the file gives in another process, and the observations it was given."""
    folder = tmp_path_factory.mktemp(format)
    work, observations = {}, {}
    for kind, saved in KINDS.items():
        if format == "torch" and kind not in FEW:
            continue
        path = folder / f"{kind.replace(' ', '_')}{SUFFIXES[format]}"
        report = export(saved, path, origin={"recipe": "none"})
        assert report.format == format
        assert report.drawn.observations == 10_000
        assert report.drawn.holds
        steps = program(saved.policy(), 5.0, {})
        observations[kind] = check.draw(steps, 50, np.random.default_rng(1))
        first = check._nested(steps.observations, (x[0] for x in arrays_of(steps, observations[kind]).values()))
        work[str(path)] = (observations[kind], first, arrays_of(steps, observations[kind]))
    (folder / "work").write_bytes(pickle.dumps(work))
    reader = "\n".join(line[4:] for line in READERS[format].splitlines())
    packages = [place for place in sys.path if place.endswith("site-packages")]
    code = STRANGER.format(paths=f"sys.path += {packages!r}", reader=reader)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder / "work")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    results = dict(zip(observations, work, strict=True))
    return {
        kind: pickle.loads((folder / f"{path}.result").read_bytes()) for kind, path in results.items()
    }, observations


@pytest.mark.parametrize("kind", KINDS)
def test_a_stranger_acts_as_the_policy_does(format, strangers, kind):
    results, observations = strangers
    if kind not in results:
        pytest.skip("torch is slow: a few kinds are enough")
    act, draws = KINDS[kind].policy(), KINDS[kind].policy(deterministic=False)
    wanted = act(observations[kind])
    assert results[kind][0].dtype == wanted.dtype
    np.testing.assert_allclose(results[kind][0], wanted, rtol=1e-6, atol=1e-6)
    if format == "numpy":
        np.testing.assert_array_equal(results[kind][1], draws(observations[kind], np.random.default_rng(3)))
        np.testing.assert_allclose(results[kind][2], wanted[0], rtol=1e-6, atol=1e-6)


def test_numpy_holds_noise_as_training_did(tmp_path):
    saved = KINDS["gaussian"]
    export(saved, tmp_path / "policy.py")
    names = {}
    exec((tmp_path / "policy.py").read_text(), names)
    act, rng, other = saved.policy(deterministic=False), np.random.default_rng(0), np.random.default_rng(0)
    drawn = check.draw(program(saved.policy(), 5.0, {}), 50, np.random.default_rng(0))
    observation = drawn[np.argmin(np.abs(saved.policy().parameters(drawn)[:, 1]))]  # far from the bounds
    mine = np.array([names["act"](observation, rng) for _ in range(7)])
    np.testing.assert_array_equal(mine, np.array([act(observation, other) for _ in range(7)]))
    assert len(np.unique(mine[:, 1, 0])) == 3


def test_numpy_refuses_what_is_no_observation(tmp_path):
    names, table = {}, {}
    export(KINDS["categorical"], tmp_path / "net.py")
    exec((tmp_path / "net.py").read_text(), names)
    with pytest.raises(ValueError, match="NaN"):
        names["act"](np.array([np.nan, 0.0, 3.0]))
    export(KINDS["softmax"], tmp_path / "table.py")
    exec((tmp_path / "table.py").read_text(), table)
    assert table["act"](-1) == KINDS["softmax"].policy()(-1)
    with pytest.raises(ValueError, match="outside its space: -1 to 4"):
        table["act"](-2)
    export(KINDS["bits"], tmp_path / "bits.py")
    exec((tmp_path / "bits.py").read_text(), names)
    with pytest.raises(ValueError, match="outside its space of .6,. whole numbers"):
        names["act"](5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_runner_is_short_and_imports_only_numpy(kind, tmp_path):
    export(KINDS[kind], tmp_path / "policy.py")
    tree = ast.parse((tmp_path / "policy.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [ast.unparse(node) for node in imports] == ["import numpy as np"]
    assert 1 + sum(node.end_lineno - node.lineno + 1 for node in functions) <= 31


def test_files_say_what_they_are(tmp_path):
    about = {
        "format": "fedrl-export/1",
        "recipe": "none",
        "seed": 7,
        "client": None,
        "inputs": ["a", "b/0", "b/1", "c"],
    }
    saved = KINDS["multi"]
    names = {}
    export(saved, tmp_path / "policy.py", origin={"recipe": "none"})
    exec((tmp_path / "policy.py").read_text(), names)
    assert names["ABOUT"].items() >= about.items()
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    export(saved, tmp_path / "policy.onnx", origin={"recipe": "none"})
    model = onnx.load(tmp_path / "policy.onnx")
    props = {it.key: it.value for it in model.metadata_props}
    assert props["format"] == "fedrl-export/1"
    assert json.loads(props["observations"]) == saved.header["observations"]
    assert [it.name for it in model.graph.input] == about["inputs"]
    assert [it.name for it in model.graph.output] == ["action", "logits"]
    torch = pytest.importorskip("torch")
    export(saved, tmp_path / "policy.pt2", origin={"recipe": "none"})
    files = {"fedrl.json": ""}
    torch.export.load(tmp_path / "policy.pt2", extra_files=files)
    assert json.loads(files["fedrl.json"]).items() >= about.items()
    export(KINDS["namesakes"], tmp_path / "names.onnx")
    (inputs,) = (it.value for it in onnx.load(tmp_path / "names.onnx").metadata_props if it.key == "inputs")
    assert json.loads(inputs) == ["a/b", "observation/a/b", "observation/action", "c0", "observation/logits", "x0"]
    for file in tmp_path.iterdir():  # an export replaces an earlier one, and nothing else
        assert b"fedrl-export" in file.read_bytes(), file


def test_onnx_gives_the_distribution(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    saved = KINDS["gaussian"]
    export(saved, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    observations = np.array([[0.5, 1.0, 3.0], [-0.5, -9.0, 4.0]], np.float32)
    mean, std = session.run(["mean", "std"], {"observation": observations})
    np.testing.assert_allclose(mean, saved.policy().parameters(observations), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std, np.exp([-1.0, -1.0]), rtol=1e-6)
