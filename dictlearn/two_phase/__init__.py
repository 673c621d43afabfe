"""The two-phase spiking network: `network` and `phases` run it, `rules` change it, a `learner` learns."""
