"""The two-phase spiking network: `phases` run the network, `rules` change its weights, `learner` learns."""
