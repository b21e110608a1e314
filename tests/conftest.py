"""Profiles of the property tests: the same examples on every run. Errors show all frames."""

import gc
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from checkpoint.reverse.tape import Tape
from dualad.core.levels import FILLED, LIVE
from dualad.support import progress

os.environ.setdefault("DUALAD_FULL_TRACEBACK", "1")  # what users see has tests of its own
os.environ.setdefault("DUALAD_CHECK", "1")

settings.register_profile("dualad", derandomize=True, deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dualad")


#: tests of the table that are quick for every row
EVERY_ROW = {"test_value_has_the_type_shape_and_dtype_of_numpys", "test_jvp_against_differences", "test_vjp_against_jvp"}
#: files whose tests start processes, compile much, or wait; tests that take more than half a second
SLOW = {
    "fitting", "many", "test_distributed", "test_docs", "test_exit", "test_exports", "test_fit_campaign", "test_fit_changes", "test_forks",
    "test_installations", "test_outside", "test_processors", "test_random_branches", "test_random_layouts", "test_random_programs",
    "test_systems", "test_types", "test_a_chain_is_one_operation", "test_a_chain_whose_steps_branch_is_one_operation",
    "test_a_compiled_function_has_compiled_steps", "test_a_forked_worker_does_not_keep_the_lock", "test_a_hessian_and_products_with_it",
    "test_a_program_ends_while_helpers_wait", "test_a_reader_that_has_enough_is_no_error",
    "test_a_resumed_chain_goes_on_with_the_same_bits", "test_a_resumed_chain_knows_no_paths", "test_a_sparse_jacobian_whose_work_is_lost",
    "test_a_stiff_problem", "test_a_worker_that_dies", "test_a_worker_that_dies_does_not_take_the_results_with_it",
    "test_a_zipped_program_compiles", "test_all_schedules_and_storages_give_the_same_bits",
    "test_all_states_of_a_long_chain_of_numbers_do_not_fit", "test_another_process_is_refused", "test_any_mask",
    "test_compiled_functions_are_sent_and_traced_there", "test_complex_states_and_right_hand_sides_that_branch",
    "test_constants_may_be_dask_arrays", "test_counts_are_those_of_the_prediction", "test_dask_is_not_imported_unless_the_user_has",
    "test_derivatives_do_not_depend_on_the_dtype_of_constants", "test_derivatives_of_derivatives_call_python_too",
    "test_digests_are_the_same_in_every_process", "test_every_evaluation_is_drawn_once", "test_examples_run", "test_forked_workers",
    "test_forward_mode_and_second_derivatives_find_paths_of_their_own", "test_freed_memory_is_taken_again_without_the_system",
    "test_functions_without_derivative_are_compiled", "test_gradients_under_every_schedule", "test_helpers_compute_blocks_and_go",
    "test_hundreds_of_sessions_leave_no_thread_and_no_open_file", "test_in_compiled_adapted_code", "test_inputs_outs_and_settings",
    "test_integrals_of_three_variables", "test_interrupted_again_and_again", "test_interrupted_and_gone_on", "test_it_compiles",
    "test_it_runs_as_a_module", "test_jvp_against_differences", "test_kinds_of_reductions_and_dtypes",
    "test_long_loops_are_not_evaluated_step_by_step_at_call_two", "test_loops_are_vectorised",
    "test_loops_compile_with_the_values_of_numpy", "test_loops_of_any_number_of_turns_in_steps_are_loops", "test_loops_that_are_rolled_up",
    "test_loops_that_print_do_so_as_often_as_without_jit", "test_machine_code_on_disk_finds_the_loops_of_another_process",
    "test_many_tests_one_after_the_other", "test_members_of_a_compiled_function_have_the_bits_of_single_calls_and_no_call_of_their_own",
    "test_only_what_was_lost_is_repeated", "test_pairs_of_traps", "test_peak_memory_is_within_a_quarter_of_the_saved_states_and_one_step",
    "test_places_on_disk", "test_plan", "test_plot", "test_plots", "test_products_take_several_steps_at_once",
    "test_programs_call_the_search", "test_programs_call_the_solver", "test_programs_in_straight_code", "test_random_loops",
    "test_random_steps_with_aliases", "test_results_that_turns_leave_to_be_read_one_by_one_end", "test_rotations_between_rotations",
    "test_rows_are_entered_when_first_met", "test_rows_are_trusted_whoever_imports_their_module", "test_scipy_by_the_standard",
    "test_solutions_and_their_derivatives", "test_sparse_jacobians_give_what_dense_ones_give", "test_states_are_saved_as_the_schedule_says",
    "test_states_made_again_have_the_bits_of_those_of_the_search", "test_steps_of_a_chain_with_masks",
    "test_steps_of_the_plain_function_print_and_are_pulled_back_with_outs_inputs_and_tangents",
    "test_steps_on_more_paths_than_allowed_are_made_by_the_plain_function",
    "test_steps_on_more_paths_than_are_compiled_are_those_of_the_plain_function_with_one_warning", "test_the_benchmark_lists_and_measures",
    "test_costs_and_works_are_those_of_the_times", "test_the_derivative_by_a_rate_is_there_wherever_it_comes_from",
    "test_the_ends_and_the_times_have_derivatives", "test_the_ends_of_rows_are_computed_in_the_loop_over_rows",
    "test_the_exact_values_are_those_of_mpmath", "test_the_first_call_of_a_compiled_chain_is_within_the_budget",
    "test_the_gradient_of_a_chain_leaves_a_turn_where_the_step_does", "test_the_peak_is_within_the_budget",
    "test_the_pseudo_inverse_is_made_of_the_factors_that_numpy_takes", "test_the_same_bits_and_nothing_is_made_twice",
    "test_the_steps_are_scipys", "test_threads_meet_paths_together", "test_threads_share_the_steps_of_compiled_chains",
    "test_threads_share_the_turns_of_loops_in_programs", "test_traced_derivatives_are_rolled_up_too", "test_tradeoff", "test_two_processes",
    "test_value_has_the_type_shape_and_dtype_of_numpys", "test_values_and_derivatives_are_the_eager_ones",
    "test_values_tangents_and_cotangents", "test_verbs_take_and_return_dask_arrays",
    "test_views_of_arrays_in_fortran_order_are_those_of_numpy", "test_vjp_against_jvp",
    "test_what_a_function_first_keeps_later_has_its_derivative", "test_what_a_killed_process_wrote_in_part_is_cut_off",
    "test_what_an_integrand_holds_is_an_argument_of_the_program", "test_what_exceeds_a_budget_is_left_out",
    "test_what_has_no_derivative_is_refused_by_name", "test_what_rounding_decides_is_compared_no_more", "test_whole_rows_are_read_back",
}  # fmt: skip


def pytest_collection_modifyitems(items):
    """Mark as quick: the table's tests in both modes for every row, and of all others the first of each function's parameters."""
    seen = set()
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        first = (item.path, name) not in seen
        seen.add((item.path, name))
        slow = SLOW & {item.path.stem, name} or item.path.parent.name in ("benchmarks", "examples")
        slow = slow or any(item.iter_markers("long")) or any(item.iter_markers("campaign"))
        if not slow and (first or name in EVERY_ROW):
            item.add_marker(pytest.mark.quick)


def pytest_collection_finish():
    """Keep the garbage collector from walking through all collected tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    """Begin with NumPy's own floating-point warnings, and no level: an interrupt that comes while one is entered may leave it behind."""
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    LIVE.clear()
    FILLED.clear()


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.long)])
def entries(request, monkeypatch):
    """Run a test twice: with the short paths of small arrays, and with those of large ones, for arrays of any size."""
    if request.param == "large":
        monkeypatch.setattr(Tape, "small", -1)
    return request.param


@pytest.fixture
def bars(monkeypatch):
    """The bars that a test makes, instead of tqdm's."""
    made = []

    class Recorder:
        def __init__(self, total, initial, desc, unit):
            self.total, self.initial, self.count, self.desc, self.unit, self.closed = total, initial, initial, desc, unit, False
            made.append(self)

        def update(self, count=1):
            self.count += count

        def close(self):
            self.closed = True

    monkeypatch.setattr(progress, "import_tqdm", lambda: Recorder)
    return made


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Keep machine code in a folder of this run, and the bytecode of its many processes where Python writes none elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield
