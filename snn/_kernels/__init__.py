"""Compiled code of `snn`.

A kernel takes contiguous arrays that the caller allocated and filled.  What Python calls returns numbers or
arrays, and no records.  It checks nothing, raises nothing and draws no random numbers; `inf` means "never
fires".

What differs between forms of weights, kinds of neurons or stops is a method of a record (`compiling.record`).
Protocols say what a record must have: `delivery.Form`, `stops.StoppedNeurons`, `stepped.ClockNeurons`.
`neuron` has the equations.  `event_loop` goes from spike to spike, for every form of weights: `rows`,
`sparse_rows`.  `active_neurons` and `screening` use the same loop for few neurons of many.  `convolution` is
the event loop of weights on a grid, `stepped` the loop over the steps of a clock, for `real_neurons` and
`digital_neurons`.
"""
