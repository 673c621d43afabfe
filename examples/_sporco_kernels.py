"""Kernels learned by sporco in a separate process: its release needs an older NumPy than this project.

    PYTHON examples/_sporco_kernels.py INPUT.npz OUTPUT.npz {online,batch} N_STEPS

INPUT has `crops`, `start` (kernels) and `penalty`.  OUTPUT has the kernels, the processor time in
seconds and the passes through the crops, each after five numbers of steps.  The script imports nothing of
this project.
"""

import sys
import time

import numpy as np


def main() -> None:
    source, target, kind, n_steps = sys.argv[1:]
    from sporco.dictlrn import cbpdndl, onlinecdl

    inputs = np.load(source)
    penalty, start = float(inputs["penalty"]), np.moveaxis(inputs["start"], 0, -1)
    # sporco's convolution is circular.  A margin of zeros, as wide as a kernel, separates opposite edges of a
    # crop.  A side of 72 = 64 + 8 has small factors, which makes Fourier transforms fast.
    side = start.shape[0]
    crops = np.pad(inputs["crops"], [(0, 0), (0, side), (0, side)])
    marks = {round(n) for n in np.geomspace(2, int(n_steps), 5)}
    kept, seconds, passes = [], [], []
    taken = 0.0
    if kind == "online":
        # Steps of 30 / (10 + n), and codes to a tolerance of 1e-2, were the best of several trials.  With
        # sporco's default steps, 10 / (5 + n), the objective ends 1 % higher.
        learner = onlinecdl.OnlineConvBPDNDictLearn(
            start,
            penalty,
            onlinecdl.OnlineConvBPDNDictLearn.Options(
                {
                    "eta_a": 30.0,
                    "eta_b": 10.0,
                    "CBPDN": {"rho": 5.0, "RelaxParam": 1.8, "RelStopTol": 1e-2, "MaxMainIter": 100},
                }
            ),
        )
    else:
        learner = cbpdndl.ConvBPDNDictLearn(
            start,
            np.moveaxis(crops, 0, -1),
            penalty,
            cbpdndl.ConvBPDNDictLearn.Options(
                {"MaxMainIter": 1, "CBPDN": {"rho": 50.0 * penalty + 0.5}, "CCMOD": {"rho": 10.0}},
                dmethod="cns",
            ),
            dmethod="cns",
        )
    for step in range(int(n_steps)):
        begin = time.process_time()
        if kind == "online":
            learner.solve(crops[step % len(crops)], dimK=0)
        else:
            learner.solve()
        taken += time.process_time() - begin
        if step + 1 in marks:
            kept.append(np.moveaxis(learner.getdict().squeeze(), -1, 0).copy())
            seconds.append(taken)
            passes.append((step + 1) / len(crops) if kind == "online" else step + 1)
    np.savez(target, kernels=np.array(kept), seconds=seconds, passes=passes)


if __name__ == "__main__":
    main()
