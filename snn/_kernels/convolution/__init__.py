"""The event loop for a grid, whose weights are the same everywhere: a spike touches only nearby positions.

Neurons lie on a grid of positions, with the same channels at each position.  The equations are those of
`neuron`, but the scheduling is different.  Time is cut into epochs.  Potentials and currents refer to the
beginning of an epoch: with tau the time since then,

    v = w + c tau - p e^-tau        h = p e^-tau        (at the beginning w = v + h, p = h)

so that a spike at tau_s adds W to w and W e^tau_s to p of its targets.  Doing this for a few thousand targets
at each spike is limited by memory.  Therefore each position has its own window of time, and a log of the
spikes that reached it within the window; they are added to w and p when the window ends or the log is full.
For a window from tau_0 to T, each neuron has a bound on how far above its threshold it comes,

    excess >= w + max(c T, c tau_0) - p e^-T - theta,

to which a spike adds W (1 - e^-(T - tau_s)).  While the bound is negative, the neuron does not fire.  If
h < 0, v is convex, so its maximum is at an end; if h > 0, no term exceeds its value at an end.

A neuron whose bound is not negative becomes a candidate.  The w and p of a candidate contain all spikes, and
it has a time before which it does not cross: now + t, with t the positive root of

    c t + h t / (1 + b t) = gap,    gap = theta - v,    b = 1/2                          if h > 0,
                                                        b = min(1/2 + (T - tau) / 12, 1) if h <= 0.

Until the window ends, the left side is not below c t + h (1 - e^-t), since 1 / (1 - e^-t) - 1 / t grows from
1/2 and is at most 1/2 + t / 12, and at most 1.  The smallest of all these times and of the ends of windows is
refined repeatedly: a window that ends is opened again, and a bound becomes the exact crossing.  When the
smallest is exact, this neuron fires, with all neurons that tie with it.

The numbers, and the order in which they are added, do not depend on the windows.
"""
