"""Without the extras, what does not need them works, and what does says what to install."""

import subprocess
import sys

import pytest

from fedrl.cli.errors import EXTRAS


def python(missing: list[str], command: str) -> str:
    """What is said by `command` where the modules `missing` cannot be imported."""
    without = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    said = subprocess.run([sys.executable, "-c", f"{without}\n{command}"], capture_output=True, text=True, timeout=300)
    return said.stdout + said.stderr


def test_recipes_are_listed_and_loaded():
    said = python(sorted(EXTRAS), "from fedrl.experiments import find\nfor name in find.names(): find.recipe(name)")
    assert said == ""


@pytest.mark.parametrize(
    ("missing", "recipe", "wanted"),
    [
        ("mujoco", "control/hopper", "fedrl: this needs mujoco, which is not installed; pip install 'fedrl[mujoco]'"),
        ("mujoco", "xie2025/fig3", "pip install 'fedrl[mujoco]'"),
        ("mujoco", "wang2024/fig1-halfcheetah", "pip install 'fedrl[mujoco]'"),
        ("torch", "fedagent/quickstart", "pip install 'fedrl[llm]'"),
        ("libsumo", "xu2024/fig6d", "pip install 'fedrl[traffic]'"),
    ],
)
def test_what_to_install(missing, recipe, wanted, tmp_path):
    line = ["fedrl", "run", recipe, "--out", str(tmp_path / "run")]
    said = python([missing], f"sys.argv = {line}\nfrom fedrl.cli import main\nmain()")
    assert wanted in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()
