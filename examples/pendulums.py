"""Twenty pendulums under different gravity learn one policy with PPO and FedAvg: `python examples/pendulums.py`."""

import gymnasium as gym

import fedrl
from fedrl import algorithms, learners, selection


def main(rounds: int = 50, clients: int = 20, steps: int = 2000, out: str | None = "runs/pendulums") -> fedrl.Run:
    federation = fedrl.gymnasium(lambda client: gym.make("Pendulum-v1", g=9 + 0.1 * client), clients=clients)
    method = algorithms.fedavg(learners.ppo(steps=steps, num_envs=10), selection=selection.uniform(4))
    run = fedrl.train(method, federation, rounds=rounds, out=out)
    print(f"return {run.rows[0]['return']:.0f} after the first round, {run.rows[-1]['return']:.0f} after {rounds}")
    print("torque at rest, hanging down:", run.policy()([-1.0, 0.0, 0.0]))
    return run


if __name__ == "__main__":
    main()
