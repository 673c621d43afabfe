"""Every example runs at a small size, draws its pictures, and reports numbers that are right."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dictlearn import TwoPhaseLearner, mean_objective
from examples import convolutional_coding, learn
from snn.base.archive import reading, save_archive

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).parents[2] / "examples"


class Report(str):
    """The printed text of a program, with the folder that the program wrote to."""

    folder: Path

    def floats(self, pattern):
        """Return the numbers of the only line that has a pattern."""
        (found,) = re.findall(pattern, self, flags=re.MULTILINE)
        return [float(number.replace(",", "")) for number in ([found] if isinstance(found, str) else found)]


def milliseconds(path):
    with Image.open(path) as written:
        shown = []
        for k in range(written.n_frames):
            written.seek(k)
            written.load()
            shown.append(written.info["duration"])
    return sum(shown)


def animate_learning(of):
    first, last = of.floats(r"objective from ([\d.]+) to ([\d.]+)")
    assert last < 0.95 * first
    assert milliseconds(of.folder / "learning.webp") == 4 * 80 + 2500


def animate_network(of):
    assert 0.0 < of.floats(r"certified gap ([\d.e-]+)")[0] <= 1e-2
    assert milliseconds(of.folder / "network.webp") == 4 * 80 + 2500


def bits(of):
    assert "This many bits for 1 %" in of


def one_optimum_for_three(of):
    assert "28 x 28 pixels; 24 kernels at 36 positions; 864 unknowns" in of
    rows = re.findall(r"^([\d.e-]+) +([\d.]+) +([\d,]+) +([\d.]+) +([\d,]+)$", of, flags=re.MULTILINE)
    assert [float(row[0]) for row in rows] == list(convolutional_coding.TOLS)
    spikes = [int(row[2].replace(",", "")) for row in rows]
    assert spikes == sorted(spikes)
    assert spikes[0] > 0
    (line,) = re.findall(r"objectives at the last gap: (.*)$", of, flags=re.MULTILINE)
    objectives = [float(part.split()[-1]) for part in line.split(", ")]
    assert len(objectives) == 3
    assert max(objectives) <= min(objectives) * (1.0 + 2e-5)


def events(of):
    row = r".*?  +(\S+) +(\S+) +(\S+) +(\S+) %$"
    live, as_it_was = (of.floats(f"^{name}{row}") for name in ("events, a network", "the same, potentials"))
    assert live[2] < 0.1 < as_it_was[2]
    assert live[1] < 0.5 * as_it_was[1]
    certified = [
        of.floats(f"^{name}{row}") for name in ("events, a stream", "frames, a stream", "frames, each")
    ]
    assert max(figures[2] for figures in certified) <= 1e-3
    assert certified[1][0] < certified[2][0]
    assert abs(live[3] - certified[2][3]) < 3.0


def cosines_of_gradients(of):
    before, after = (
        [[float(cell) for cell in line.split()] for line in part.splitlines() if line[:1].isdigit()]
        for part in of.split("‖H‖")[1:]
    )
    assert len(before) == len(after) == 8
    # T, F and B by counts and by currents, H by counts and by currents.
    assert all(row[2] > 0.9 and row[4] > 0.9 for row in after if row[0] >= 5.0)
    assert next(row for row in after if row[0] == 10.0)[3] < 0.5
    assert before[-1][1] > 0.9


def knees(of):
    assert "knee, stages, in integers" in of
    assert re.search("^noise ", of, flags=re.MULTILINE)


def filled_in(of):
    quality = re.findall(r"(mean of known|sparse codes).* ([\d.]+) dB +[\d.]+ dB$", of, re.MULTILINE)
    assert len(quality) == 4
    for mean, codes in (quality[:2], quality[2:]):
        assert float(codes[1]) > float(mean[1]) + 5.0
    assert "121 patches in one call" in of


def in_integers(of):
    names = ("start", "floats", "integers, by chance", "integers, to the nearest")
    start, *learned = (of.floats(rf"^{name} +([\d.]+)")[0] for name in names)
    assert max(learned) < 0.9 * start


def kernels(of):
    (start,) = of.floats(r"^start +([\d.]+) ")
    _, _, learned = of.floats(r"^spiking codes +([\d.]+) +([\d.]+) +([\d.]+) ")
    assert learned < start
    assert of.floats(r", gap ([\d.e-]+),")[0] < 1e-6
    assert of.floats(r"decibels ([\d.]+),")[0] > of.floats(r"decibels of the background ([\d.]+)")[0]


def missing_pixels(of):
    rows = re.findall(r"^(\S.*?)  +([\d.]+) +([\d.]+) +[+-][\d.]+ %", of, flags=re.MULTILINE)
    assert len(rows) == 5
    assert rows[0][0] == "all pixels"
    assert all(float(half_range) > 0.0 for *_, half_range in rows)


def learned_photographs(of):
    numbers, others = (json.loads((of.folder / f"photographs_{seed}.json").read_text()) for seed in (0, 1))
    assert len(numbers["curves"]) == 5
    assert len(others["curves"]) == 4  # the second seed learns with the best step only
    for curve in numbers["curves"].values():
        assert curve["n_samples"][0] == 0
        assert curve["n_samples"][-1] >= 1500
        assert curve["last"] < 0.85 * curve["objective"][0]
    spikes = numbers["curves"]["two-phase network"]
    assert spikes["consistency"][1] > 0.9
    assert 0.9 < spikes["median_norm"][2] < 1.1
    # The reported numbers are those of the learner in the checkpoint.
    data = learn.task("photographs", n_signals=1500)
    learner = TwoPhaseLearner.load(of.folder / "photographs_0_consistent.npz")
    score = mean_objective(learner.dictionary, data.held_out, penalty=data.penalty)
    assert score.objective == pytest.approx(spikes["last"], rel=1e-9)


def few_bits(of):
    rows = [
        [float(cell) for cell in re.findall(r"([+-][\d.]+) %", line)]
        for line in re.findall(r"^(?:4|12)  .*$", of, flags=re.MULTILINE)
    ]
    # With twelve bits every way is within 2 % of float64; with four bits, no dictionary is better than
    # float64.
    assert max(map(abs, rows[1][:3])) < 2.0
    assert min(rows[0][:3]) > -0.2


def all_certified(of):
    assert "96 of 96 codes by spikes alone are certified to 0.001" in of
    assert 25.0 < of.floats(r"reconstruction: ([\d.]+) dB")[0] < 40.0


def better_at_the_task(of):
    before, after = (of.floats(rf"^{name} +([\d.]+) %")[0] for name in ("unsupervised", "task-driven"))
    assert after < 0.9 * before


def recorded_from(of):
    assert of.floats(r"^variance that Gabor functions explain +([\d.]+)")[0] > 0.6
    assert of.floats(r"^F1 / F0 +[\d.]+ +([\d.]+)")[0] > 1.0
    before, lesioned, after = of.floats(r"objective ([\d.]+);.* lesioned ([\d.]+);.* later ([\d.]+)")
    assert lesioned > max(before, after)


PROGRAMS = {
    # name: (arguments at a small size, pictures, what it reports, arguments that are refused)
    "animate_learning": ("--samples 1000 --atoms 20 --frames 5", "learning.webp", animate_learning,
                         ["--samples 10", "--frames 2"]),
    "animate_network": ("--samples 1000 --frames 5 --tol 1e-2", "network.webp", animate_network,
                        ["--penalty 1", "--piece nose", "--frames 1"]),
    "bits": ("--signals 2 --duration 40 --samples 64 --bits 6 8 10", "bits.png", bits,
             ["--signals 0", "--bits 1", "--duration 0"]),
    "convolutional_coding": ("--small --side 28", "convolutional_coding.png", one_optimum_for_three,
                             ["--side 30", "--side 8", "--side 1024"]),
    "dale": ("--rounds 12 --samples 1000", "dale.png",
             lambda of: of.floats(r"64 x 256: Dale, never stops +([\d,]+)"), ["--rounds 1", "--samples 1"]),
    "event_camera": ("--windows 3", "event_camera.png", events,
                     ["--windows 0", "--shift -1", "--threshold 0"]),
    "faults": ("--signals 2 --duration 60", "faults.png",
               lambda of: of.floats(r"^dead synapses +0.001 +([\d.e-]+)"), ["--signals 0", "--duration 1"]),
    "gradient_check": ("--samples 2000 --checked 12", "gradient_check.png", cosines_of_gradients,
                       ["--samples 0", "--checked 501"]),
    "imperfect_neurons": ("--signals 2 --duration 30 --samples 300 --seeds 1 --only leak noise",
                          "imperfect_neurons.png", knees, ["--seeds 0"]),
    "inpaint_photograph": ("--size 48 --stride 4", "inpainted.png", filled_in,
                           ["--size 9", "--size 4096", "--size 33 --stride 2"]),
    "lava_lca": None,  # layers, which have tests of their own
    "learn": ("photographs --samples 1500 --held-out 50 --steps 0.2 1 --seeds 0 1 --learners random-start "
              "gradient scikit-learn", "photographs_atoms.png photographs_learning.png "
              "photographs_rasters.png", learned_photographs, ["photographs --samples 10"]),
    "learn_in_integers": ("--samples 80 --atoms 12", "learned_in_integers.png", in_integers,
                          ["--samples 0", "--atoms 1"]),
    "learn_kernels": ("--small", "kernels.png colour_kernels.webp", kernels, []),
    "learn_missing_pixels": ("--samples 200 --atoms 12 --seeds 0 1 --held-out 100", "missing_pixels.png",
                             missing_pixels, ["--samples 0"]),
    "learn_quantised": ("--samples 300 --atoms 12 --bits 4 12 --held-out 100", "quantised_learning.png",
                        few_bits, ["--bits 1", "--samples 0"]),
    "photograph": ("--height 64 --width 96", "photograph.png", all_certified,
                   ["--height 60", "--width 0", "--height 4000"]),
    "record_runs": ("--samples 1000 --penalties 1", "", None,
                    ["--samples 10", "--penalties 0", "--penalties 26"]),
    "task_driven": ("--atoms 12 --epochs 6", "task_driven.png", better_at_the_task,
                    ["--atoms 1", "--epochs 0"]),
    "three_neurons": ("--duration 200", "three_neurons.png",
                      lambda of: of.index("0.607629: 2, 0.748468: 0"), []),
    "time_steps_and_read_outs": ("--duration 100 --signals 1 --certified 1", "time_steps_and_read_outs.png",
                                 lambda of: of.index("thresholded average current"), []),
    "v1": ("--neurons 40 --samples 4000 --trials 3 --patches 60", "v1_fields.png v1_recordings.png",
           recorded_from, ["--neurons 1", "--trials 1", "--samples 10", "--patches 1"]),
}  # fmt: skip
# Some examples need photographs or digits of other packages, and say which package to install.
NEEDS = {
    "animate_network": "skimage",
    "convolutional_coding": "skimage",
    "inpaint_photograph": "skimage",
    "learn_kernels": "skimage",
    "record_runs": "skimage",
    "dale": "skimage",
    "v1": "skimage",
}
RUN = [name for name, how in PROGRAMS.items() if how is not None]


def run(monkeypatch, name, arguments, folder):
    monkeypatch.setattr("sys.argv", [name, "--output", str(folder), *arguments.split()])
    return importlib.import_module(f"examples.{name}").main()


def test_every_example_is_in_the_table():
    assert {file.stem for file in EXAMPLES.glob("*.py") if not file.name.startswith("_")} == set(PROGRAMS)


@pytest.mark.parametrize("name", RUN)
def test_example_draws_and_reports(name, monkeypatch, tmp_path, capsys):
    pytest.importorskip(NEEDS.get(name, "numpy"))
    arguments, pictures, check, _ = PROGRAMS[name]
    assert not run(monkeypatch, name, arguments, tmp_path)
    for picture in pictures.split():
        assert (tmp_path / picture).stat().st_size > 10_000
    report = Report(capsys.readouterr().out)
    report.folder = tmp_path
    if check is not None:
        check(report)


@pytest.mark.parametrize(("name", "arguments"), [(name, each) for name in RUN for each in PROGRAMS[name][3]])
def test_nonsense_is_refused(name, arguments, monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        run(monkeypatch, name, arguments, tmp_path)
    assert refusal.value.code != 0
    assert not list(tmp_path.iterdir())


def test_a_learning_program_goes_on_where_it_was(monkeypatch, tmp_path, capsys):
    options = "--held-out 20 --seeds 0 --learners scikit-learn"
    run(monkeypatch, "learn", f"photographs --samples 1000 {options}", tmp_path)
    numbers = json.loads((tmp_path / "photographs_0.json").read_text())
    removed = numbers["curves"].pop("scikit-learn")
    (tmp_path / "photographs_0.json").write_text(json.dumps(numbers))
    capsys.readouterr()
    run(monkeypatch, "learn", f"photographs --samples 1000 {options}", tmp_path)
    learned = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" ...")]
    assert learned == ["scikit-learn, seed 0 ..."]
    again = json.loads((tmp_path / "photographs_0.json").read_text())["curves"]["scikit-learn"]
    np.testing.assert_array_equal(again["objective"], removed["objective"])
    with pytest.raises(SystemExit, match="samples"):
        run(monkeypatch, "learn", f"photographs --samples 1100 {options}", tmp_path)


def test_a_learner_of_another_version_is_not_lost(monkeypatch, tmp_path, capsys):
    options = "photographs --samples 1000 --held-out 20 --learners"
    file = tmp_path / "photographs_0_consistent.npz"
    run(monkeypatch, "learn", options, tmp_path)
    with reading(file, "learner") as entries:
        save_archive(file, {name: array for name, array in entries.items() if name != "rule.movement"})
    saved = file.read_bytes()
    with pytest.raises(SystemExit, match=r"consistent\.npz must be of this version.*remove it to learn anew"):
        run(monkeypatch, "learn", options, tmp_path)
    assert file.read_bytes() == saved
    file.unlink()
    # The saved file fixes the options that a figure depends on.
    with pytest.raises(SystemExit, match="inputs"):
        run(monkeypatch, "learn", f"{options} --inputs spiking", tmp_path)
    run(monkeypatch, "learn", options, tmp_path)
    graded = TwoPhaseLearner.load(file)
    (tmp_path / "photographs_0.json").unlink()
    run(monkeypatch, "learn", f"{options} --inputs spiking", tmp_path)
    assert TwoPhaseLearner.load(file).n_spikes > 3 * graded.n_spikes
