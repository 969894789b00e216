"""One simulation per process, and what is said to whoever wants two; SUMO missing (about 6 s)."""

import subprocess
import sys

import libsumo
import numpy as np
import pytest

from fedrl.environments.traffic.sumo import FigureEight, Merge, network, roads


def python(program):
    """What a new interpreter prints."""
    terminated = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert terminated.returncode == 0, terminated.stderr
    return terminated.stdout


def test_a_second_environment_is_refused():
    first, second = FigureEight(), Merge(warm_up=0)
    first.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"already runs in this process.*silently replace.*close\(\).*SubprocessEnv"):
        second.reset(seed=0)
    with pytest.raises(RuntimeError, match="the epoch is over or has not begun"):
        second.advance(np.zeros(5))
    assert first.advance(np.ones(7)).mean_speed > 0.0, "the first goes on as if nothing had happened"
    second.close()
    assert first.advance(np.ones(7)).mean_speed > 0.0, "closing what never ran closes nothing"
    first.close()
    second.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"not running: call reset\(\)"):
        first.vehicles()
    second.close()
    second.close()
    assert not libsumo.isLoaded()


def test_an_environment_nobody_has_any_more_is_not_in_the_way():
    env = FigureEight()
    env.reset(seed=0)
    env = FigureEight()
    env.reset(seed=0)
    env.close()


def test_someone_elses_simulation_is_left_alone():
    libsumo.start(["sumo", "--net-file", str(network.build(roads.merge()).file), "--no-step-log"])
    try:
        with pytest.raises(RuntimeError, match="not one of fedrl's; libsumo holds one simulation per process"):
            FigureEight().reset(seed=0)
    finally:
        libsumo.close()


def test_forked_children():
    said = python("""
import os
import numpy as np
from fedrl.environments.traffic.sumo import FigureEight

env, other = FigureEight(), FigureEight()
env.begin(0)
here = [env.advance(np.ones(7)).mean_speed for _ in range(50)]
env.begin(0)

child = os.fork()
if child == 0:
    for attempt in (lambda: env.advance(np.ones(7)), lambda: env.reset(seed=0), lambda: other.reset(seed=0)):
        try:
            attempt()
        except RuntimeError as error:
            print(error, flush=True)
    env.close()
    other.begin(0)
    print([other.advance(np.ones(7)).mean_speed for _ in range(50)] == here, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print([env.advance(np.ones(7)).mean_speed for _ in range(50)] == here)
env.close()
""").splitlines()
    assert [line.startswith("this process was forked") and "'spawn'" in line for line in said[:3]] == [True] * 3
    assert said[3:] == ["True", "True"], "closed in the child it can start anew, and the parent has felt nothing"


@pytest.mark.parametrize("missing", ["libsumo", "sumolib", "pettingzoo"])
def test_without_sumo(missing):
    said = python(f"""
import sys
sys.modules["{missing}"] = None
try:
    import fedrl.environments.traffic.sumo
except ImportError as error:
    print(error)
""")
    assert missing in said
    assert "pip install 'fedrl[traffic]'" in said


def test_the_rest_of_fedrl_stays_out_of_it():
    loaded = python("""
import sys
from fedrl.environments.traffic.sumo import FigureEight
env = FigureEight()
env.reset(seed=0)
env.close()
print(*sys.modules)
""").split()
    assert not {"jax", "optax", "matplotlib"} & set(loaded)
    ours = {
        name for name in loaded if name.startswith("fedrl.") and not name.startswith("fedrl.environments.traffic.sumo")
    }
    folders = {"fedrl.environments", "fedrl.environments.traffic", "fedrl.lazy_names"}  # the last lists what they have
    assert ours == {*folders, "fedrl.cache_folder"}, "the folder for SUMO's networks is all it may ask for"
