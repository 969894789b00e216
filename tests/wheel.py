"""Build the wheel, install it alone, without extras, for every Python at hand, and use it from a folder of its own.

README's ten lines and what follows from them, recipes of one's own (file, module, entry point), `fedrl new` and an export.

    python tests/wheel.py                        the running Python, and 3.12 to 3.14 where they are installed
    python tests/wheel.py python3.13             only this one

Exit code 1 if one of them fails. It downloads some 300 MB for each Python, so it is not part of `make test`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.outside import copy_recipe, install

ROOT = Path(__file__).parents[1]
OTHERS = ("python3.12", "python3.13", "python3.14")
TEN_LINES = """
import gymnasium as gym
import fedrl
from fedrl import algorithms, learners, selection

federation = fedrl.gymnasium(lambda i: gym.make("Pendulum-v1", g=9 + 0.1 * i), clients=3)
learner = learners.ppo(steps=400, num_envs=2)
run = fedrl.train(algorithms.fedavg(learner, selection=selection.uniform(2)), federation, rounds=2, out="runs/pendulums")
assert -2 <= float(run.policy()([1.0, 0.0, 0.0])[0]) <= 2
assert (fedrl.load("runs/pendulums").returns == run.returns).all()
assert fedrl.__version__
"""
# What a stranger does with only NumPy: act with the exported file.
STRANGER = """
import sys
sys.modules["fedrl"] = sys.modules["jax"] = None
import policy
assert -2 <= float(policy.act([1.0, 0.0, 0.0])[0]) <= 2
"""
RECIPES = {"runs/file": "./tank.py", "runs/module": "tank_module:RECIPE", "runs/entry": "tank-entry"}
COMMANDS = [
    ["fedrl", "--version"],
    ["fedrl", "recipes"],
    ["fedrl", "run", "--set", "rounds=4", "--set", "clients=4", "--seeds", "2", "--out", "runs/first"],
    ["fedrl", "verify", "runs/first"],
    ["fedrl", "evaluate", "runs/first"],
    ["fedrl", "compare", "runs/first", "runs/pendulums"],
    ["fedrl", "evaluate", "runs/pendulums", "--episodes", "1"],
    ["fedrl", "run", "--resume", "--out", "runs/pendulums"],
    ["fedrl", "export", "runs/pendulums", "--format", "numpy", "--out", "policy.py"],
    ["python", "-c", STRANGER],
    *(["fedrl", "run", recipe, "--out", run] for run, recipe in RECIPES.items()),
    *(["fedrl", command, run] for run in RECIPES for command in ("verify", "evaluate", "plot", "cite")),
    *(["fedrl", "run", "--resume", "--out", run] for run in RECIPES),
    ["fedrl", "new", "water-tank"],
    ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "water-tank"],
    [
        "fedrl",
        "run",
        "water-tank/recipe.py",
        "--set",
        "clients=2",
        "--set",
        "rounds=1",
        "--seeds",
        "1",
        "--out",
        "runs/tanks",
    ],
    ["fedrl", "play", "runs/tanks", "--steps", "5", "--out", "clip.gif"],
]


def build(folder: Path) -> Path:
    """The wheel, built from a copy: setuptools would leave a build folder in the tree."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "runs", "site", "build", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(source)], check=True)
    (wheel,) = folder.glob("fedrl-*.whl")
    return wheel


def use(python: str, wheel: Path, folder: Path) -> None:
    """Raises `CalledProcessError` if something does not work."""
    place, home = folder / "environment", folder / "home"
    home.mkdir(parents=True)
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    subprocess.run([*pip, "pytest"], check=True)  # for the tests of a project of one's own
    (site,) = place.glob("lib/python*/site-packages")
    copy_recipe(home, "tank")
    copy_recipe(home, "tank_module")
    copy_recipe(install(site, "tank", tank_entry="installed_tank:RECIPE"), "installed_tank")
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}
    script = home / "mine.py"
    script.write_text(TEN_LINES)
    for command in [["python", str(script)], *COMMANDS]:
        print(f"  {' '.join(command).strip().splitlines()[0]}", flush=True)
        subprocess.run(
            command,
            check=True,
            cwd=home,
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )


def main() -> int:
    pythons = sys.argv[1:] or [sys.executable, *(name for name in OTHERS if _runs(name))]
    failed = []
    with tempfile.TemporaryDirectory(prefix="fedrl-wheel-") as folder:
        wheel = build(Path(folder))
        for number, python in enumerate(pythons):
            print(f"{python}: {wheel.name}", flush=True)
            try:
                use(python, wheel, Path(folder) / str(number))
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                print(f"  FAILED: {error}")
                failed.append(python)
    print(f"{len(pythons) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _runs(python: str) -> bool:
    return bool(shutil.which(python)) and not subprocess.run([python, "--version"], capture_output=True).returncode


if __name__ == "__main__":
    sys.exit(main())
