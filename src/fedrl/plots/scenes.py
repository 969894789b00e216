"""Cart-pole and mountain car as pictures: what moves, given a state's numbers."""

from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from fedrl.environments.control import cart_pole as carts
from fedrl.environments.control import mountain_car as cars
from fedrl.plots.clip import Scene
from fedrl.plots.style import COLOURS

BLUE, RED, GREEN = COLOURS[:3]
WIDTH, HEIGHT = 0.5, 0.25  # of the cart, in metres


def cart_pole(env_params: carts.CartPole) -> Scene:
    """To scale: the track with the marks an episode ends at, the cart, and a pole of this client's length."""
    length = 2 * float(env_params.half_length)

    def build(axes: Any) -> Any:
        edge = carts.MAX_POSITION
        axes.set(xlim=(-edge - 0.6, edge + 0.6), ylim=(-0.35, max(1.3, 1.1 * length) + HEIGHT), aspect="equal")
        axes.plot([-edge - 0.6, edge + 0.6], [0, 0], color="0.5", linewidth=1)
        axes.plot([-edge, edge], [0, 0], linestyle="", marker="|", markersize=14, color="0.5")
        cart = axes.add_patch(Rectangle((0, 0), WIDTH, HEIGHT, color="0.25"))
        (pole,) = axes.plot([], [], color=RED, linewidth=6, solid_capstyle="round")
        (axle,) = axes.plot([], [], marker="o", color=BLUE, markersize=6)

        def move(pose: np.ndarray) -> None:
            x, angle = float(pose[0]), float(pose[2])
            cart.set_xy((x - WIDTH / 2, 0))
            pole.set_data([x, x + length * np.sin(angle)], [HEIGHT, HEIGHT + length * np.cos(angle)])
            axle.set_data([x], [HEIGHT])

        return move

    return build


def mountain_car(env_params: cars.MountainCar) -> Scene:
    """The hill as Gymnasium draws it, the car along its slope, and the flag at this client's goal."""

    def height(x: Any) -> Any:
        return 0.45 * np.sin(3 * x) + 0.55

    def build(axes: Any) -> Any:
        track = np.linspace(cars.MIN_POSITION, cars.MAX_POSITION, 200)
        axes.set(xlim=(track[0] - 0.05, track[-1] + 0.1), ylim=(0.0, 1.3), aspect="equal")
        axes.fill_between(track, height(track), color="0.88")
        axes.plot(track, height(track), color="0.4", linewidth=1.5)
        goal = float(env_params.goal_position)
        axes.plot([goal, goal], [height(goal), height(goal) + 0.22], color="0.3", linewidth=2)
        axes.fill(goal + np.array([0, 0.1, 0]), height(goal) + np.array([0.22, 0.18, 0.14]), color=GREEN)
        (body,) = axes.plot([], [], color=BLUE, linewidth=9, solid_capstyle="round")
        (wheels,) = axes.plot([], [], linestyle="", marker="o", markersize=7, color="0.2")

        def move(pose: np.ndarray) -> None:
            x = float(pose[0])
            slope = np.array([1.0, 1.35 * np.cos(3 * x)])
            along = slope / np.linalg.norm(slope)
            upward = np.array([-along[1], along[0]])
            ends = np.array([x, height(x)]) + np.array([-0.04, 0.04])[:, None] * along
            wheels.set_data(*(ends + 0.015 * upward).T)
            body.set_data(*(ends + 0.045 * upward).T)

        return move

    return build
