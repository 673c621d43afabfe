"""Compiled code of `snn`.

A kernel takes contiguous arrays that the caller allocated and filled.  A kernel that Python calls returns
numbers or arrays, never records.  Kernels check nothing and raise nothing; the random numbers of `faults` are
functions of their place.  A time of `inf` means "never fires".

Forms of weights, kinds of neurons and stops differ in the methods of their records (`compiling.record`).
Protocols say what a record must have: `delivery.Form`, `stops.StoppedNeurons`, `stepped.ClockNeurons`.
`neuron` has the equations.  `event_loop` goes from spike to spike, for the forms of `rows` and `sparse_rows`.
`active_neurons` and `screening` use the same loop for a few neurons of a network.  `convolution` is the event
loop for weights on a grid.  `stepped` is the loop over clock steps, for `real_neurons` and `digital_neurons`.
"""
