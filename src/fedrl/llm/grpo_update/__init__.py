"""Group relative policy optimisation of agents that act over many turns."""
