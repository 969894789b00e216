"""Environments. All clients share one environment and differ in its parameters.

    Federation(environments.cart_pole(), environments.cart_pole_params(...))

Finite MDPs are drawn (`dense_mdps`, `synthetic_mdps`, …) or given as arrays (`MDP`). For simulators of your own:
`fedrl.gymnasium`, `fedrl.pettingzoo`. Names are imported when first used: simulator processes need
no JAX, and MuJoCo and SUMO need an extra.
"""

from typing import TYPE_CHECKING

from fedrl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fedrl.environments.control.cart_pole import environment as cart_pole
    from fedrl.environments.control.cart_pole import params as cart_pole_params
    from fedrl.environments.control.mountain_car import environment as mountain_car
    from fedrl.environments.control.mountain_car import params as mountain_car_params
    from fedrl.environments.control.mountain_car import shifts as mountain_car_shifts
    from fedrl.environments.control.mujoco import half_cheetah, hopper, hopper_legs, walker2d
    from fedrl.environments.protocol import Box, Discrete, Environment, Host, MultiDiscrete, Step
    from fedrl.environments.tabular.finite import MDP
    from fedrl.environments.tabular.finite import environment as finite_mdp
    from fedrl.environments.tabular.grid_world import grid_world as grid_world_mdps
    from fedrl.environments.tabular.random_mdp import dense as dense_mdps
    from fedrl.environments.tabular.random_mdp import orthogonal as orthogonal_mdps
    from fedrl.environments.tabular.random_mdp import sparse as sparse_mdps
    from fedrl.environments.tabular.synthetic import synthetic as synthetic_mdps
    from fedrl.environments.traffic.figure_eight import environment as figure_eight
    from fedrl.environments.traffic.figure_eight import params as figure_eight_params
    from fedrl.environments.traffic.osm.network import Network as RoadNetwork
    from fedrl.environments.traffic.sumo import FigureEight as SumoFigureEight
    from fedrl.environments.traffic.sumo import Merge as SumoMerge

_HOME = {
    "Box": "protocol:Box",
    "Discrete": "protocol:Discrete",
    "Environment": "protocol:Environment",
    "Host": "protocol:Host",
    "MDP": "tabular.finite:MDP",
    "MultiDiscrete": "protocol:MultiDiscrete",
    "RoadNetwork": "traffic.osm.network:Network",
    "Step": "protocol:Step",
    "SumoFigureEight": "traffic.sumo:FigureEight",
    "SumoMerge": "traffic.sumo:Merge",
    "cart_pole": "control.cart_pole:environment",
    "cart_pole_params": "control.cart_pole:params",
    "dense_mdps": "tabular.random_mdp:dense",
    "figure_eight": "traffic.figure_eight:environment",
    "figure_eight_params": "traffic.figure_eight:params",
    "finite_mdp": "tabular.finite:environment",
    "grid_world_mdps": "tabular.grid_world:grid_world",
    "half_cheetah": "control.mujoco:half_cheetah",
    "hopper": "control.mujoco:hopper",
    "hopper_legs": "control.mujoco:hopper_legs",
    "mountain_car": "control.mountain_car:environment",
    "mountain_car_params": "control.mountain_car:params",
    "mountain_car_shifts": "control.mountain_car:shifts",
    "orthogonal_mdps": "tabular.random_mdp:orthogonal",
    "sparse_mdps": "tabular.random_mdp:sparse",
    "synthetic_mdps": "tabular.synthetic:synthetic",
    "walker2d": "control.mujoco:walker2d",
}

__all__ = [
    "MDP",
    "Box",
    "Discrete",
    "Environment",
    "Host",
    "MultiDiscrete",
    "RoadNetwork",
    "Step",
    "SumoFigureEight",
    "SumoMerge",
    "cart_pole",
    "cart_pole_params",
    "dense_mdps",
    "figure_eight",
    "figure_eight_params",
    "finite_mdp",
    "grid_world_mdps",
    "half_cheetah",
    "hopper",
    "hopper_legs",
    "mountain_car",
    "mountain_car_params",
    "mountain_car_shifts",
    "orthogonal_mdps",
    "sparse_mdps",
    "synthetic_mdps",
    "walker2d",
]


__getattr__, __dir__ = lazy_names(__name__, _HOME)
