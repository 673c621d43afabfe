"""The commands of a core that runs a digital network."""

from enum import IntEnum


class Action(IntEnum):
    """What a command of a core does; a command is an action, a neuron and a value (docs/hardware.md)."""

    REST = 0  # set potentials, currents, pending input and the number of the step to zero
    DRIVE = 1  # set what is added to the potential of a neuron in each step
    POTENTIAL = 2  # set the potential of a neuron
    CURRENT = 3  # set the synaptic current of a neuron; between REST and RUN
    RUN = 4  # do as many steps as the value says
    STOP = 5  # end a RUN after the present step
    SPIKE = 6  # deliver a message, the value, of a neuron or an input, as if it fired in the last step
    # Only of a core with a capacity:
    THRESHOLD = 7  # set the threshold of a neuron
    ROW = 8  # choose the neuron whose weights are set
    WEIGHT = 9  # set the weight that leads from the neuron of ROW to a neuron
    EXPONENT = 10  # set the exponent of all weights
    # Only of a readable core:
    READ = 11  # answer with the potential of a neuron
