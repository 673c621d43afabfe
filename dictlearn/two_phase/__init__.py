"""The two-phase spiking network: how it runs, how it learns, and how its updates compare with gradients.

`network` and `phases` run it; `rules` are its local updates, `steps` their sizes; `learner` learns from one
batch and `learning` from many; `gradient_check` compares updates with gradients.
"""
