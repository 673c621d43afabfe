"""Compiled code of `snn`.

A kernel takes contiguous arrays that the caller allocated and filled.  A kernel that Python calls returns
numbers or arrays, never records.  Kernels check nothing and raise no errors.  A time of `inf` means that a
neuron never fires.

First read `neuron`, which has the equations, and `event_loop`, which goes from spike to spike.  The event
loop serves the weights of `rows` and `sparse_rows`.  `active_neurons` and `screening` use the same loop for a
few neurons of a network.  `convolution` is the event loop for weights on a grid.  `stepped` is the loop over
clock steps, for `real_neurons` and `digital_neurons`.

Forms of weights, kinds of neurons and stops are records with methods (`compiling.record`).  The protocols
`delivery.Form`, `stops.StoppedNeurons` and `stepped.ClockNeurons` list the methods that a record must have.
"""
