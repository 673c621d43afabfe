"""Compiled code of `snn`.

A kernel takes contiguous arrays that the caller allocated and filled.  What Python calls returns numbers or
arrays, and no records.  It checks nothing, raises nothing and draws no random numbers; `inf` means "never
fires".

`neuron` has the equations.  `event_loop` goes from spike to spike, for every form of weights: `rows` and
`sparse_rows` implement the operations of `delivery`.  `active_set` and `screening` use the same loop for few
neurons of many.  `convolution` is the event loop of weights on a grid, `stepped` the loop over the steps of a
clock, for the kinds of `neurons`.
"""
