"""Language agents of two organisations over the real wire: the adapters have the bytes of one process (2 minutes)."""

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")
pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'fedrl[llm]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'fedrl[llm]'")

from safetensors.numpy import load_file
from support import desks
from support.proxied import needs_nginx
from support.replays import ending
from support.served import served

pytestmark = needs_nginx


def test_adapters_over_the_wire(tmp_path, monkeypatch):
    """A site's worker is killed while it has the model; nobody is left out."""
    tests = str(Path(desks.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", tests)
    model = tmp_path / "model"
    model.mkdir()
    desks.save_model(model)
    agreed = desks.agreed(model, rules={"quorum": 3, "deadline": 120.0, "patience": 240.0})
    with served(tmp_path, agreed, desks.MODULES, seed=5) as one:
        for name, files in one.sites.items():
            (files.home / f"{name}_private.py").rename(files.home / f"desk_{name}.py")
            one.configure(name, **desks.own(name, model))
        one.server.model.mkdir()
        (one.server.model / "config.json").write_bytes((model / "config.json").read_bytes())
        one.start_all()
        one.await_round(0, 240)
        assert one.kill("b", "organisations.worker")
        one.finish(300)
        assert one.left_out() == []
        for name, files in one.sites.items():
            monkeypatch.syspath_prepend(str(files.home))
            assert (files.home / "adapter" / "adapter_model.safetensors").exists(), name
        import desk_a
        import desk_b

        desks.simulate(one.agreement, model, lambda: desks.Both([desk_a.Desk(), desk_b.Desk()]), tmp_path / "here")
        assert ending(one.server.run) == ending(tmp_path / "here")
        assert all(x.any() for name, x in load_file(one.server.run / "policy.safetensors").items() if "lora_B" in name)
