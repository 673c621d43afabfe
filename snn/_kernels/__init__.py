"""What is compiled in `snn`.

A kernel takes contiguous arrays that the caller allocated and filled, and returns integers.
It checks nothing, raises nothing and draws no random numbers; `inf` means "never fires".

All event-driven ones rest on one closed form.  A neuron with soma bias c and synaptic current h, seen a
time t after the last event, with no further spike arriving, has (docs/theory.md, equations 1-3)

    mu(t) = c + h e^-t        v(t) = v + c t + h (1 - e^-t).

One module a form of weights: `dense`, `mirrored`, `sparse`, `segments`; `clocked` is the simulator with a
time step.
"""
