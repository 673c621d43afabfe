"""The event loop for a grid, whose weights are the same everywhere: a spike touches only nearby positions.

Neurons lie on a grid of positions, with the same channels at each position.  The neurons obey the equations
of `neuron`, but another event loop finds their spikes.  Time is cut into epochs.  Potentials and currents
refer to the beginning of an epoch.  If tau is the time since this beginning, potentials and currents are

    v = w + c tau - p e^-tau        h = p e^-tau        (at the beginning w = v + h, p = h).

A spike at tau_s adds W to w and W e^tau_s to p of its targets.  If a spike has a few thousand targets, the
speed of the memory limits the additions.  Therefore each position has its own window of time, and a log of
the spikes that reached the position within the window.  The logged spikes are added to w and p when
the window ends or the log is full.  For a window from tau_0 to T, each neuron has an upper bound on the
excess of its potential over its threshold,

    excess >= w + max(c T, c tau_0) - p e^-T - theta.

A spike adds W (1 - e^-(T - tau_s)) to the bound.  While the bound is negative, the neuron does not fire.  If
h < 0, v is convex, so the maximum of v is at tau_0 or T.  If h > 0, each term of v is largest at tau_0 or T.

A neuron whose bound is not negative becomes a candidate.  The w and p of a candidate include the logged
spikes.  A candidate does not cross its threshold before the time now + t, where t is the positive root of

    c t + h t / (1 + b t) = gap,    gap = theta - v,    b = 1/2                          if h > 0,
                                                        b = min(1/2 + (T - tau) / 12, 1) if h <= 0.

Until the window ends, the left side of the equation is at least c t + h (1 - e^-t).  They are equal
if b is 1 / (1 - e^-t) - 1 / t, and this number grows from 1/2 and is at most min(1/2 + t / 12, 1).

The loop repeatedly takes the smallest of the times of all candidates and of the ends of all windows.  A
window that ends is opened again, and a lower bound is replaced by the exact crossing.  If the smallest time
is an exact crossing, the neuron fires, with all neurons that cross in the same instant.

The windows change neither which numbers are added nor the order of the additions.
"""
