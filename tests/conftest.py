"""Settings for every test: tiers, reproducible property tests, and no windows."""

import sys
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

from tests.cluster import local_cluster
from tests.processes import LIMIT

matplotlib.use("Agg")
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

# For `make check`, and not for `make test`: files, and tests by the beginning of their names.
THOROUGH = (
    # What shows, measures, packs or breaks the packages on purpose.
    "benchmarks/",
    "docs/test_code_blocks.py",
    "examples/",
    "release/test_distribution.py",
    "release/test_lowest.py",
    "release/test_public_api.py::test_the_list_is_the_same_in_every_process",
    "scikit_learn/",
    "stress/",
    "test_pictures.py",
    # What starts processes: to compile, to be interrupted or killed, to work on a cluster.
    "dictlearn/distributed/test_blocks_with_estimators.py",
    "dictlearn/distributed/test_learning_on_cluster.py",
    "dictlearn/distributed/test_missing_extra.py",
    "dictlearn/two_phase/test_interrupting.py",
    "dictlearn/two_phase/test_kernels.py",
    "dictlearn/two_phase/test_learner.py::test_killed_processes_lose_nothing",
    "dictlearn/two_phase/test_signs.py::test_a_cluster_gives_the_same_bits",
    "snn/exchange/test_brian2.py",
    "snn/exchange/test_extras.py",
    "snn/test_compile_notice.py",
    "snn/test_conformance_runs.py::test_control_c_ends_a_busy_run",
    "snn/test_conformance_runs.py::test_kernels_run_without_being_compiled",
    "snn/test_precompile.py",
    "snn/test_runaway.py::test_ctrl_c_ends_a_run",
    "solvers/test_cluster.py",
    "solvers/test_methods.py::test_methods_run_without_being_compiled",
    "solvers/test_reference.py::test_processes_use_as_many_threads_of_blas_as_the_caller",
    "solvers/test_spiking.py::test_joblib_chooses_the_backend",
    "solvers/test_start.py::test_coordinate_descent_in_workers_is_the_same",
    "solvers/test_workers.py::test_outcomes_come_in_the_order_of_the_batches",
    "solvers/test_workers.py::test_processes_give_the_bits_of_threads_for_long_signals",
    "test_project.py::test_import_compiles_and_draws_nothing",
    "test_start_up.py",
    # What learns until a statement holds on average.
    "dictlearn/two_phase/test_learner.py::test_a_run_that_failed_anywhere_goes_on_bit_for_bit",
    "dictlearn/two_phase/test_learner.py::test_a_slow_lateral_step_lets_thresholds_and_norms_shrink",
    "dictlearn/two_phase/test_learner.py::test_planted_dictionary_is_recovered_from_random_starts",
    "dictlearn/two_phase/test_learner.py::test_rare_atoms_have_unit_norm_too",
    "dictlearn/two_phase/test_learner.py::test_usage_steps_bring_norms_to_one_and_keep_them",
    "dictlearn/two_phase/test_learner.py::test_without_reweighting_small_atoms_die",
    "dictlearn/two_phase/test_missing_inputs.py::test_half_of_the_inputs_teach_a_planted_dictionary",
    "dictlearn/two_phase/test_penalties_of_atoms.py::test_learning_minimises_the_objective",
    # Oracles in many digits, and many more sizes and seeds of what other tests show.
    "snn/digital/test_simulate_digital.py::test_thousands_of_random_networks",
    "snn/exchange/test_round_trip.py::test_random_networks_of_all_forms",
    "snn/test_conformance_extremes.py::test_the_default_limit_ends_a_runaway",
    "snn/test_conformance_screening.py::test_thousands_of_networks",
    "snn/test_neuron.py::test_first_crossing_over_a_wide_grid",
    "solvers/test_agreement.py::test_coherent_atoms",
    "solvers/test_agreement.py::test_hardly_any_penalty",
    "solvers/test_agreement.py::test_order_of_the_atoms",
    "solvers/test_agreement.py::test_other_sizes",
    "solvers/test_agreement.py::test_sign_of_an_atom",
    "solvers/test_agreement.py::test_signal_and_penalty_scale_together",
    "solvers/test_certificate.py::test_gap_is_not_below_the_exact_one",
    "solvers/test_certificate.py::test_long_indices_are_taken",
    "solvers/test_convolutional_active_set.py::test_sweeps_are_coordinate_descent",
    "solvers/test_masks.py::test_gap_is_not_below_the_exact_one",
    "solvers/test_methods.py::test_workers_change_nothing",
    "solvers/test_proved_rates.py::test_thousands_of_runs_break_no_bound",
    "solvers/test_rounding.py",
    "solvers/test_spiking.py::test_a_stopped_network_does_not_replace_a_better_code",
)
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if f"{item.path.relative_to(FOLDER).as_posix()}::{item.name}".startswith(THOROUGH):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Close the figures that a test leaves open: a display makes one where it is given no axes."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory):
    with local_cluster(tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture
def cluster_client(session_cluster):
    """A client of a cluster of two processes, both alive; tests may kill them."""
    session_cluster.wait_for_workers(2, timeout=LIMIT)
    return session_cluster
