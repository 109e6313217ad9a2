"""The findings of the hostile readings and acceptance tests at c43186e, and what became of each.

Names are those of the readings: a part (core, flow, runtime, doors) with its number, or an acceptance report with its
row. `PARTS=findings make show-truth` runs the tests.
"""

from shows.finding import Finding, State

BEFORE = "c43186e"
"""The commit that was read; the tests fail there, or name what was not there yet."""


FINDINGS = (
    Finding(
        "flow D1",
        State.FIXED,
        (
            "tests/unit/sinks/test_window.py::test_a_nacked_message_is_not_confirmed_by_a_later_multiple_ack",
            "tests/unit/sinks/test_window.py::test_the_first_answer_to_a_message_counts",
            "tests/unit/sinks/test_window.py::test_a_refusal_of_what_was_not_sent_is_an_error",
            "tests/unit/sinks/test_window.py::test_a_refusal_of_what_has_left_is_nothing",
            "tests/unit/sinks/test_window.py::test_copies_that_are_not_sent_yet_do_not_count_as_answered",
            "tests/unit/sinks/test_window.py::test_a_copy_that_was_refused_goes_again_and_is_not_told_again",
            "tests/contract/test_rabbitmq_only.py::test_what_is_confirmed_through_a_full_queue_that_is_drained_has_arrived",
        ),
        "",
    ),
    Finding(
        "flow D9",
        State.FIXED,
        (
            "tests/contract/test_kafka_sink_only.py::test_a_message_too_large_for_the_topic_is_rejected_and_the_others_pass",
            "tests/contract/test_kafka_sink_only.py::test_a_message_for_a_topic_that_is_not_there_is_rejected_and_the_others_pass",
            "tests/contract/test_kafka_only.py::test_a_batch_that_is_too_large_rejects_none_of_its_messages",
            "tests/unit/sinks/test_kafka_errors.py",
            "tests/contract/test_kafka_sink_only.py::test_a_missing_topic_of_the_sinks_own_url_is_waited_for",
        ),
        "",
    ),
    Finding(
        "v-resources S5",
        State.FIXED,
        (
            "tests/unit/relay/process/test_shell.py::test_who_waits_for_a_message_that_the_sink_rejects_hears_of_it",
            "tests/unit/relay/node/test_emitting.py::test_a_message_that_was_refused_raises_where_its_confirmation_is_waited_for",
            "tests/unit/relay/core/test_core.py::TestFates::test_a_rejection_is_reported_with_the_ack_to_all_who_handed_the_message_over",
            "tests/unit/relay/core/test_core.py::TestFates::test_a_rejected_message_that_is_emitted_again_is_tried_again",
            "tests/unit/relay/core/test_core.py::TestOtherRelays::test_what_a_peer_has_rejected_is_reported_to_whoever_handed_it_over",
            "tests/unit/relay/core/test_outbox.py::test_an_ack_says_which_messages_were_refused_by_their_numbers",
            "tests/unit/relay/process/test_shell.py::test_an_exclusive_task_of_an_earlier_epoch_is_refused_and_counted",
        ),
        "",
    ),
    Finding(
        "flow D6",
        State.FIXED,
        (
            "tests/unit/relay/core/test_core.py::TestWindow::test_equal_messages_without_a_key_are_not_swallowed_while_a_relay_is_absent",
            "tests/unit/relay/core/test_core.py::TestWindow::test_late_copies_of_another_replica_are_known_however_late_they_are",
            "tests/unit/relay/core/test_core.py::TestWindow::test_a_message_with_a_key_is_known_for_as_long_as_a_relay_is_absent",
        ),
        "",
    ),
    Finding(
        "flow D11",
        State.FIXED,
        (
            "tests/unit/relay/process/test_shell.py::test_a_spool_that_cannot_be_read_holds_up_no_live_message_and_is_published_when_it_can",
            "tests/unit/relay/core/test_core.py::TestSpool::test_a_spool_that_could_not_be_opened_holds_up_no_live_message",
            "tests/unit/relay/process/test_spool.py::test_an_unreadable_sector_costs_the_messages_in_it_and_its_file_is_kept",
            "tests/unit/relay/process/test_spool.py::test_an_unreadable_end_is_not_cut_off",
            "tests/unit/relay/process/test_spool.py::test_a_disk_that_cannot_be_read_at_all_loses_nothing",
            "tests/unit/relay/process/test_spool.py::test_a_segment_that_cannot_be_deleted_ends_nothing",
        ),
        "",
    ),
    Finding(
        "flow D12",
        State.FIXED,
        (
            "tests/unit/relay/core/test_core.py::TestSpool::test_a_damaged_record_does_not_keep_a_move_from_finishing",
            "tests/unit/relay/core/test_core.py::TestSpool::test_a_damaged_record_of_a_message_that_the_sink_has_under_way_costs_nothing",
        ),
        "",
    ),
    Finding(
        "flow A6",
        State.FIXED,
        (
            "tests/unit/sinks/amqp/test_connection.py::test_a_channel_that_both_sides_close_at_once_takes_no_other_channel_along",
        ),
        "",
    ),
    Finding(
        "flow D2",
        State.FIXED,
        (
            "tests/unit/outputs/test_parquet.py::test_a_publish_cancelled_while_its_commit_is_under_way_keeps_its_files",
            "tests/unit/outputs/test_parquet.py::test_a_publish_of_unknown_outcome_is_found_though_offsets_were_set_by_hand_since",
            "tests/unit/outputs/test_sqlite.py::test_who_is_cancelled_while_a_transaction_begins_leaves_none_open",
            "tests/process/test_streams.py::test_reloads_of_a_stream_that_publishes_lose_and_double_nothing",
        ),
        "",
    ),
    Finding(
        "flow D5",
        State.FIXED,
        (
            "tests/unit/outputs/test_parquet.py::test_a_publish_is_handed_off_though_its_label_is_lost",
            "tests/unit/outputs/test_parquet.py::test_what_is_published_is_on_disk_with_the_folders_it_is_in",
        ),
        "",
    ),
    Finding(
        "flow D2's remark (verify --by)",
        State.FIXED,
        (
            "tests/unit/streams/fleet/test_verify.py::test_every_file_that_is_gone_or_damaged_is_named_also_where_rows_are_looked_at",
            "tests/unit/streams/fleet/test_verify.py::test_a_list_of_files_that_is_gone_is_named",
        ),
        "",
    ),
    Finding(
        "flow D8 / v-streams-jobs D5",
        State.FIXED,
        (
            "tests/unit/streams/task/test_run.py::test_a_record_whose_row_does_not_fit_is_put_aside",
            "tests/unit/streams/task/test_run.py::test_an_output_that_cannot_be_asked_whether_rows_fit_is_no_dead_letter",
            "tests/unit/streams/task/test_run.py::test_records_whose_rows_are_refused_by_a_publish_are_put_aside_and_the_rest_is_published",
            "tests/unit/streams/task/test_run.py::test_rows_that_are_refused_only_together_fail_the_task_and_it_says_so",
            "tests/contract/test_committer.py::test_law_6_a_row_that_a_table_refuses_is_unfit_and_found_by_trying",
            "tests/contract/test_committer.py::test_law_4_a_draft_takes_rows_that_were_found_to_fit",
            "tests/unit/outputs/test_parquet.py::test_rows_of_several_types_in_one_batch_are_kept_in_as_many_files",
            "tests/unit/outputs/test_parquet.py::test_what_are_no_rows",
            "tests/unit/outputs/test_parquet.py::test_times_finer_than_microseconds_find_their_folder",
            "tests/unit/outputs/test_parquet.py::test_a_row_without_a_time_is_refused",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D4 + flow A4",
        State.FIXED,
        (
            "tests/contract/test_committer.py::test_law_5_a_publish_that_hangs_holds_up_neither_those_who_look_nor_other_partitions",
            "tests/contract/test_committer.py::test_law_5_a_publish_that_hangs_is_ended_by_the_server",
        ),
        "",
    ),
    Finding(
        "flow A1",
        State.FIXED,
        (
            "tests/contract/test_committer.py::test_law_7_what_was_read_before_offsets_were_set_by_hand_is_never_published",
            "tests/unit/streams/task/test_run.py::test_what_a_task_read_before_its_offsets_were_set_by_hand_is_not_published",
            "tests/unit/outputs/test_verdict.py::test_what_was_read_before_an_offset_was_set_by_hand_is_behind",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D9",
        State.JUDGED,
        (
            "tests/unit/outputs/test_parquet.py::test_the_documented_readers_see_every_row_though_types_and_fields_change",
        ),
        ("judged (documented at docs/explanation/committers.md#parquet and docs/howto/run-streams.md), readers tested"),
    ),
    Finding(
        "flow A2",
        State.FIXED,
        (
            "tests/unit/outputs/test_catalogue.py",
            "tests/unit/outputs/test_catalogue.py::test_a_beginning_that_was_cut_short_has_not_begun",
            "tests/contract/test_committer.py::test_law_1_many_partitions_begin_together",
        ),
        "",
    ),
    Finding(
        "flow D3",
        State.FIXED,
        (
            "tests/unit/streams/task/test_window.py::test_a_record_whose_time_has_come_is_not_early_however_old_its_group_is",
            "tests/unit/streams/task/test_run.py::test_records_that_came_while_nobody_read_the_group_are_not_early",
        ),
        "",
    ),
    Finding(
        "flow D4",
        State.FIXED,
        (
            "tests/unit/streams/fleet/test_keep.py::test_records_of_a_source_made_anew_are_not_published_as_the_continuation_of_the_old_one",
            "tests/unit/streams/fleet/test_keep.py::test_a_group_of_the_source_before_is_given_up_also_where_the_new_one_begins_at_its_start",
            "tests/unit/streams/task/test_run.py::test_what_was_read_of_a_source_made_anew_is_not_published",
            "tests/unit/streams/task/test_run.py::test_what_was_read_of_a_source_that_was_deleted_is_published",
            "tests/unit/streams/core/test_plan.py::test_what_was_read_of_a_source_before_is_given_up_and_not_published",
            "tests/contract/test_kafka_source_only.py::test_a_topic_of_a_pattern_that_is_made_anew_is_another_one",
        ),
        "",
    ),
    Finding(
        "flow D7",
        State.FIXED,
        (
            "tests/unit/streams/core/test_plan.py::test_what_a_task_reported_is_agreed_on_though_it_does_not_pause_in_time",
            "tests/unit/streams/node/test_worker.py::test_a_function_that_takes_long_keeps_its_task_from_nothing_but_reading",
            "tests/unit/runtime/worker/test_calls.py",
            "tests/unit/streams/task/test_pace.py",
            "tests/unit/streams/task/test_transform.py::test_a_function_that_does_not_return_in_time_ends_the_task_and_no_record_is_blamed",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D1",
        State.FIXED,
        (
            "tests/unit/streams/task/test_transform.py::test_a_function_that_fails_on_every_record_ends_the_task_also_without_a_limit",
            "tests/unit/streams/node/test_letter_files.py::test_a_file_that_is_full_refuses_letters_and_keeps_those_it_has",
            "tests/unit/streams/node/test_letter_files.py::test_letters_are_on_disk_when_they_are_put_aside",
            "tests/unit/streams/node/test_letter_files.py::test_letters_that_cannot_be_written_leave_no_half_of_them",
            "tests/unit/streams/node/test_letter_files.py::test_half_a_line_that_a_killed_worker_left_spoils_no_other",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D2",
        State.FIXED,
        (
            "tests/unit/runtime/crew/test_posts.py::test_a_stream_worker_that_hangs_is_noticed_also_if_its_function_is_not_async",
            "tests/unit/streams/core/test_plan.py::test_a_task_that_does_not_begin_when_its_group_does_is_dismissed",
            "tests/unit/streams/task/test_transform.py::test_a_function_that_does_not_return_in_time_ends_the_task_and_no_record_is_blamed",
        ),
        "",
    ),
    Finding(
        "flow D10, v-streams-jobs D12",
        State.FIXED,
        (
            "tests/unit/streams/fleet/test_keep.py::test_a_worker_that_is_started_again_has_as_much_time_as_a_new_one",
            "tests/unit/streams/core/test_plan.py::test_a_task_in_the_place_of_one_that_died_is_measured_by_its_own_progress",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D3",
        State.FIXED,
        ("tests/unit/streams/fleet/test_keep.py::test_checkpoints_are_as_far_apart_as_the_stream_says",),
        "",
    ),
    Finding(
        "flow D8",
        State.FIXED,
        (
            "tests/unit/streams/node/test_worker.py::test_a_task_of_a_group_whose_tasks_fail_alike_makes_room_for_the_next_one_later",
            "tests/unit/streams/core/test_plan.py::test_tasks_that_fail_one_after_the_other_make_room_ever_more_slowly_until_something_is_agreed_on",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D8",
        State.FIXED,
        (
            "tests/unit/streams/fleet/test_keep.py::test_a_partition_whose_next_records_are_gone_waits_and_the_others_go_on",
            "tests/unit/streams/fleet/test_keep.py::test_a_stream_that_cannot_publish_is_unhealthy_however_much_it_agrees_on",
            "tests/unit/streams/fleet/test_keep.py::test_what_a_group_left_out_is_still_counted_when_it_is_gone",
            "tests/unit/streams/fleet/test_keep.py::test_offsets_are_set_by_where_the_source_ends_now",
            "tests/unit/streams/core/test_health.py::test_agreements_prove_nothing_while_a_task_cannot_publish",
            "tests/unit/streams/core/test_health.py::test_trouble_counts_when_it_lasts_without_a_break",
            "tests/unit/streams/core/test_health.py::test_what_replicas_left_out_is_counted_once",
            "tests/unit/streams/doors/test_streams.py::test_a_stream_is_shown_with_what_is_wanted_of_it",
            "tests/unit/views/test_overview.py::test_each_thing_that_is_wrong_is_named",
        ),
        "",
    ),
    Finding(
        "flow A3",
        State.FIXED,
        ("tests/unit/streams/task/test_run.py::test_offsets_do_not_move_past_a_gap_before_it_is_on_record",),
        "",
    ),
    Finding(
        "flow A5",
        State.JUDGED,
        (),
        'judged (documented at docs/explanation/stream-groups.md, "A change of the declaration …")',
    ),
    Finding(
        "runtime 1",
        State.FIXED,
        (
            "tests/unit/resources/node/test_tasks.py::test_more_orders_than_a_channel_holds_all_reach_a_host_that_reads",
            "tests/unit/runtime/crew/test_crew.py::test_workers_with_large_orders_are_asked_for_as_the_loader_reads",
            "tests/process/test_runtime_corners.py::test_more_saved_states_than_a_channel_holds_outlive_reload_rollback_and_kill_9",
            "tests/unit/runtime/test_pipes.py::test_a_sender_that_waits_for_room_loses_nothing_and_is_not_called_for_a_lost_peer",
        ),
        "",
    ),
    Finding(
        "runtime 6",
        State.FIXED,
        (
            "tests/unit/resources/node/test_host.py::test_states_of_many_tasks_saved_in_one_turn_all_reach_the_agent",
            "tests/unit/resources/node/test_host.py::test_a_task_that_saves_without_pause_leaves_its_turns_to_others",
            "tests/unit/resources/node/test_host.py::test_what_tasks_save_last_reaches_the_agent_before_the_host_ends",
        ),
        "",
    ),
    Finding(
        "runtime 2",
        State.FIXED,
        (
            "tests/unit/resources/node/test_host.py::test_however_a_task_fails_the_agent_hears_why_and_its_neighbour_notices_nothing",
            "tests/unit/resources/node/test_host.py::test_a_host_that_cannot_report_the_end_of_a_task_ends_itself",
            "tests/unit/jobs/node/test_run_attempt.py::test_an_attempt_fails_with_a_reason",
            "tests/unit/jobs/node/test_output.py::test_any_error_fits_into_an_answer_that_is_never_mixed_with_output",
        ),
        "",
    ),
    Finding(
        "runtime 7",
        State.FIXED,
        (
            "tests/unit/resources/node/test_host.py::test_however_a_task_fails_the_agent_hears_why_and_its_neighbour_notices_nothing",
            "tests/unit/jobs/node/test_run_attempt.py",
        ),
        "",
    ),
    Finding(
        "runtime 3",
        State.FIXED,
        (
            "tests/unit/resources/node/test_tasks.py::test_a_task_alone_that_ends_again_and_again_is_given_back_with_the_reason",
            "tests/unit/resources/node/test_tasks.py::test_the_reason_a_task_alone_ended_for_is_its_workers_reason",
            "tests/process/test_runtime_corners.py::test_tasks_alone_that_fail_at_once_or_die_are_given_back_with_the_reason",
        ),
        "",
    ),
    Finding(
        "runtime 5",
        State.FIXED,
        (),
        "",
    ),
    Finding(
        "runtime 8",
        State.FIXED,
        (
            "tests/unit/resources/node/test_tasks.py::test_a_task_that_comes_back_to_a_node_where_it_failed_waits_longer_each_time",
            "tests/unit/resources/node/test_tasks.py::test_a_hosted_task_that_comes_back_waits_too",
            "tests/unit/resources/node/test_tasks.py::test_what_may_run_now_does_not_wait_for_what_failed",
            "tests/unit/resources/core/test_setbacks.py",
            "tests/unit/resources/core/test_trouble.py::test_troubles_in_a_row_know_when_the_first_was_and_the_last_placement",
        ),
        "",
    ),
    Finding(
        "runtime 16",
        State.FIXED,
        ("tests/unit/jobs/node/test_stopping.py::test_a_signal_at_any_moment_of_a_wait_ends_it",),
        "",
    ),
    Finding(
        "runtime 17",
        State.FIXED,
        ("tests/unit/jobs/node/test_executor.py::test_an_order_is_run_or_left_whenever_the_executor_is_asked_to_end",),
        "",
    ),
    Finding(
        "runtime 20",
        State.FIXED,
        ("tests/unit/sdk/test_context.py::test_a_number_that_json_does_not_have_is_not_saved_as_nothing",),
        "",
    ),
    Finding(
        "runtime 4",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_reload.py::test_tasks_that_fail_for_reasons_of_their_own_do_not_make_a_reload_fail",
            "tests/unit/runtime/loader/test_reload.py::test_tasks_that_fail_for_reasons_of_their_own_do_not_make_a_rollback_fail",
            "tests/unit/runtime/loader/test_reload.py::test_a_task_that_fails_does_not_make_its_node_unready",
            "tests/unit/runtime/loader/test_reload.py::test_code_that_cannot_start_a_task_alone_makes_a_reload_fail",
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_waits_until_the_tasks_alone_have_started_in_the_new_generation",
            "tests/unit/runtime/loader/test_reload.py::test_a_task_taken_back_during_a_reload_is_not_waited_for",
        ),
        "",
    ),
    Finding(
        "runtime 13",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_asked_for_by_a_signal_during_another_one_comes_after_it",
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_asked_for_by_a_signal_comes_after_the_one_that_a_caller_waits_for",
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_asked_for_by_a_signal_during_a_failing_one_comes_after_it",
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_asked_for_by_a_signal_during_the_first_import_comes_after_it",
            "tests/unit/runtime/loader/test_reload.py::test_a_reload_that_waits_for_its_turn_gives_way_to_a_stop",
        ),
        "",
    ),
    Finding(
        "runtime 9",
        State.FIXED,
        (
            "tests/system/test_up.py::test_it_ends_when_the_reader_of_its_lines_is_gone",
            "tests/system/test_up.py::test_ctrl_c_ends_it_though_nobody_reads_its_lines",
            "tests/unit/cli/terminal/test_screen.py",
        ),
        "",
    ),
    Finding(
        "runtime 10",
        State.FIXED,
        (
            "tests/unit/cli/commands/test_up.py::test_a_fleet_is_looked_at_until_it_is_ready_however_long_that_takes",
            "tests/unit/runtime/loader/test_reload.py::test_a_worker_that_has_stood_long_enough_is_in_no_crash_loop_any_more",
            "tests/unit/runtime/loader/test_reload.py::test_the_falls_of_a_successor_are_not_forgotten_because_the_worker_before_it_stands",
        ),
        "",
    ),
    Finding(
        "v-resources S3",
        State.FIXED,
        (
            "tests/unit/fleet/core/members/test_identity.py",
            "tests/unit/fleet/members/test_identity.py::test_of_two_fleets_on_one_store_the_second_does_not_join",
            "tests/unit/fleet/members/test_identity.py::test_of_two_fleets_that_start_at_the_same_time_one_gets_the_store",
            "tests/unit/fleet/members/test_identity.py::test_a_name_that_a_reload_gives_the_app_is_put_on_record",
            "tests/system/test_up.py::test_another_app_on_the_same_store_is_refused_and_says_which_fleet_is_there",
            "tests/contract/test_etcd_only.py::test_a_namespace_inside_another_is_refused",
            "tests/contract/test_etcd_only.py::test_a_namespace_around_another_is_refused",
        ),
        "",
    ),
    Finding(
        "runtime 12",
        State.FIXED,
        ("tests/process/test_starting.py::test_a_node_starts_without_stdin_stdout_and_stderr",),
        "",
    ),
    Finding(
        "runtime 13b",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_processes.py::test_a_process_that_has_not_come_to_our_code_ends_with_its_agent",
        ),
        "",
    ),
    Finding(
        "argued 14, 15, 18, 19",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_reload.py::test_the_end_of_an_earlier_process_is_not_taken_for_that_of_a_worker_with_its_number",
            "tests/unit/runtime/loader/test_reload.py::test_a_lost_loader_that_comes_back_after_a_reload_asks_for_no_other_one",
            "tests/unit/runtime/worker/test_guard.py::test_files_with_high_numbers_are_closed_too",
            "tests/unit/placement/core/test_rules.py::test_a_rule_that_calls_exit_or_cannot_say_what_it_raised_is_left_out_and_named",
            "tests/unit/placement/core/test_rules.py::test_a_score_that_is_no_number_is_left_out_and_named",
        ),
        "",
    ),
    Finding(
        "core 1",
        State.FIXED,
        (
            "tests/unit/resources/core/test_coverage.py::test_a_removed_exclusive_resource_keeps_its_task_until_the_node_confirms",
            "tests/unit/resources/core/test_coverage.py::test_an_exclusive_resource_added_again_waits_for_the_task_it_had_before",
            "tests/unit/resources/core/test_coverage.py::test_an_exclusive_task_too_many_must_confirm",
            "tests/unit/resources/core/test_coverage.py::test_a_task_that_stops_is_not_counted_in_place_of_one_that_runs",
            "tests/unit/resources/core/test_coverage.py::test_an_exclusive_task_stays_exclusive_while_no_node_declares_its_kind",
            "tests/unit/placement/fleet/test_plan.py::test_an_exclusive_resource_removed_and_added_again_begins_only_when_its_node_has_confirmed",
            "tests/unit/placement/fleet/test_plan.py::test_what_an_exclusive_task_saved_goes_with_its_resource_also_while_it_stops",
            "tests/sim/test_resources.py::test_resources_stay_covered_whatever_happens",
            "tests/process/test_exclusive_churn.py::test_exclusive_work_never_overlaps_when_its_resource_is_removed_and_added_again",
        ),
        "",
    ),
    Finding(
        "core 2",
        State.FIXED,
        (
            "tests/unit/placement/sim/test_scale.py::test_no_leader_loses_its_lease_to_a_plan_that_takes_longer_than_that",
            "tests/unit/placement/fleet/test_supervisor.py::test_the_loop_goes_on_while_many_resources_are_planned_and_what_changes_meanwhile_is_planned_next",
            "tests/unit/kit/test_aside.py",
            "tests/unit/placement/fleet/test_plan.py::test_of_very_many_those_that_lack_tasks_are_planned_first_and_together",
            "tests/process/test_multitude.py::test_one_leader_places_everything_though_nodes_are_killed_meanwhile",
        ),
        "",
    ),
    Finding(
        "v-resources row 29",
        State.JUDGED,
        (),
        "judged (documented at docs/adr/0019-exact-shares.md, Price)",
    ),
    Finding(
        "runtime 11",
        State.FIXED,
        (
            "tests/unit/placement/core/test_affinity.py::test_a_chain_of_neighbours_is_placed_in_one_pass_whatever_its_links_are_called",
            "tests/unit/placement/core/test_affinity.py::test_neighbours_in_a_circle_wait_and_keep_nobody_else_waiting",
        ),
        "",
    ),
    Finding(
        "core 16",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_history_compacted_while_a_new_leader_reads_is_read_again",
            "tests/unit/placement/fleet/test_supervisor.py::test_history_compacted_while_sources_are_read_does_not_end_the_term",
        ),
        "",
    ),
    Finding(
        "v-resources S1, row 26",
        State.FIXED,
        (
            "tests/unit/placement/core/test_affinity.py::test_a_preferred_zone_is_filled_before_others_get_anything",
            "tests/unit/placement/core/test_affinity.py::test_one_of_several_replicas_is_in_the_preferred_zone_and_the_others_are_apart",
            "tests/unit/placement/core/test_place.py::test_single_replicas_are_shared_out_by_the_policy_whatever_zones_there_are",
            "tests/unit/placement/core/test_place.py::test_several_replicas_are_levelled_over_zones_as_far_as_they_stay_apart",
            "tests/unit/placement/core/test_place.py::test_the_only_replica_may_stay_in_its_zone_when_it_leaves_its_node",
        ),
        "",
    ),
    Finding(
        'core "Scaling shape": O(P) for each freed assignment',
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_retries.py",
            "tests/unit/placement/fleet/test_view.py::test_room_for_one_has_no_more_than_a_portion_of_very_many_planned_again",
            "tests/unit/placement/fleet/test_view.py::test_those_that_seek_company_are_a_few_planned_at_a_time_too",
            "tests/unit/placement/fleet/test_supervisor.py::test_very_many_that_wait_are_all_placed_once_there_is_room",
        ),
        "",
    ),
    Finding(
        "core 3",
        State.FIXED,
        (
            "tests/contract/test_sql_only.py::test_the_clock_is_right_in_the_hour_that_comes_twice",
            "tests/contract/test_committer.py::test_a_time_is_kept_as_the_instant_it_is_wherever_the_server_stands",
        ),
        "",
    ),
    Finding(
        "core 4",
        State.FIXED,
        (
            "tests/contract/test_logs.py::test_law_5_forgetting_takes_few_rows_at_a_time_and_goes_on_where_it_failed",
            "tests/contract/test_logs.py::test_law_5_another_process_keeps_its_lease_and_writes_while_much_is_forgotten",
            "tests/unit/jobs/fleet/test_retention.py::test_output_goes_before_its_run_so_that_a_visit_that_failed_is_resumed",
        ),
        "",
    ),
    Finding(
        "core 22",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_retention.py::test_output_beyond_the_bound_goes_the_oldest_first_and_that_is_reported",
            "tests/contract/test_logs.py::test_law_7_what_is_held_is_counted",
        ),
        "",
    ),
    Finding(
        "core 25",
        State.FIXED,
        ("tests/contract/test_logs.py::test_law_5_old_logs_are_found_by_the_clock_of_their_place",),
        "",
    ),
    Finding(
        "core 6",
        State.FIXED,
        (
            "tests/contract/test_sql_only.py::test_law_4_a_lease_whose_renewal_was_answered_is_not_ended_by_an_earlier_look",
        ),
        "",
    ),
    Finding(
        "core 8",
        State.FIXED,
        (
            "tests/unit/store/test_sweep.py::test_time_in_which_nobody_could_write_does_not_count",
            "tests/unit/store/test_sweep.py::test_all_leases_get_a_whole_ttl_when_the_first_of_them_is_renewed_after_an_outage",
            "tests/unit/store/test_sweep.py::test_a_dead_lease_beside_one_that_is_renewed_needs_no_proof",
        ),
        "",
    ),
    Finding(
        "core 14",
        State.FIXED,
        ("tests/unit/fleet/audit/test_sealing.py::test_a_wrong_clock_of_a_node_erases_nothing",),
        "",
    ),
    Finding(
        "core 15",
        State.FIXED,
        (
            "tests/unit/fleet/audit/test_sealing.py::test_what_a_newer_rota_wrote_is_left_to_it_and_the_rest_is_sealed",
            "tests/unit/fleet/audit/test_sealing.py::test_a_chain_of_a_newer_rota_is_left_alone",
        ),
        "",
    ),
    Finding(
        "core 12",
        State.FIXED,
        (
            "tests/contract/test_sqlite_only.py::test_compaction_costs_as_much_as_there_is_in_the_log_whatever_was_ever_committed",
        ),
        "",
    ),
    Finding(
        "core 20",
        State.FIXED,
        (
            "tests/unit/store/etcd/test_clock.py::test_a_wrong_clock_is_outvoted_also_by_members_that_went_down_since",
            "tests/unit/store/etcd/test_clock.py::test_of_two_clocks_that_differ_the_earlier_counts",
        ),
        "",
    ),
    Finding(
        "core 23",
        State.FIXED,
        (
            "tests/unit/store/test_transactions.py::test_law_3_a_large_commit_that_is_compacted_while_it_is_read_is_not_taken_for_whole",
        ),
        "",
    ),
    Finding(
        "core 30",
        State.FIXED,
        ("tests/contract/test_sql_only.py::test_a_scan_without_a_limit_is_read_page_by_page_and_shows_one_revision",),
        "",
    ),
    Finding(
        "v-resources S4",
        State.FIXED,
        (
            "tests/unit/store/leases/test_keeper.py::test_a_holder_that_hears_no_answers_does_not_prolong_its_lease_again_and_again",
            "tests/unit/store/leases/test_keeper.py::test_a_holder_that_heard_no_answers_for_a_while_keeps_its_lease",
            "tests/unit/store/leases/test_keeper.py::test_a_lease_that_ended_meanwhile_is_lost",
        ),
        "",
    ),
    Finding(
        "scaling: lease sweeps, MySQL polling",
        State.FIXED,
        (
            "tests/unit/store/test_sweep.py::test_of_a_large_fleet_few_look_all_the_time",
            "tests/unit/store/test_sweep.py::test_who_looks_rarely_looks_all_the_time_once_a_lease_seems_to_die",
            "tests/unit/store/test_pace.py",
        ),
        "",
    ),
    Finding(
        "core 5, 11, 18",
        State.FIXED,
        (
            "tests/unit/jobs/core/test_backfill_and_retention.py::test_what_may_have_run_and_was_cleared_is_refused_unless_forced",
            "tests/unit/jobs/core/test_backfill_and_retention.py::test_if_no_record_is_kept_all_that_was_decided_may_have_run",
            "tests/unit/jobs/core/test_backfill_and_retention.py::test_a_run_that_was_made_up_for_does_not_show_that_others_of_its_time_are_kept",
            "tests/unit/jobs/core/test_backfill_and_retention.py::test_a_missed_due_time_gets_a_run_also_the_one_whose_record_stands_for_all",
            "tests/unit/jobs/fleet/test_verbs.py::TestRuns::test_backfill_makes_what_is_missing_once",
            "tests/unit/jobs/fleet/test_verbs.py::TestRuns::test_of_two_backfills_at_once_the_later_leaves_the_result_of_the_earlier",
            "tests/unit/jobs/fleet/test_verbs.py::TestRuns::test_the_run_of_a_missed_due_time_takes_the_place_of_its_record",
            "tests/unit/jobs/doors/test_jobs.py::test_due_times_that_had_no_run_are_filled_in",
            "tests/unit/jobs/cli/test_jobs.py::test_a_backfill_of_what_may_have_run_is_made_with_force_only",
        ),
        "",
    ),
    Finding(
        "core 7",
        State.FIXED,
        (
            "tests/unit/compose/test_leader_chores.py::test_a_chore_writes_nothing_in_a_term_that_is_over",
            "tests/unit/compose/test_leader_chores.py::test_every_chore_of_a_leader_has_a_row",
        ),
        "",
    ),
    Finding(
        "core 10",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_part.py::test_runs_that_wait_for_their_jitter_keep_no_due_time_from_becoming_a_run",
            "tests/unit/jobs/fleet/test_part.py::test_runs_started_by_hand_keep_no_due_time_from_becoming_a_run",
            "tests/unit/jobs/fleet/test_view.py::test_only_runs_of_the_schedule_that_are_ready_are_its_backlog",
        ),
        "",
    ),
    Finding(
        "core 13, 28",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_declared.py::test_a_node_that_lost_its_session_does_not_put_its_older_declarations_back",
            "tests/unit/jobs/fleet/test_declared.py::test_a_job_of_a_file_that_was_refused_is_taken_over_when_its_name_is_free",
        ),
        "",
    ),
    Finding(
        "core 19",
        State.FIXED,
        ("tests/unit/jobs/fleet/test_notify.py::test_a_run_that_may_have_begun_stays_whatever_is_answered_later",),
        "",
    ),
    Finding(
        "core 21",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_part.py::test_a_job_that_comes_after_others_follows_no_success_from_while_it_was_disabled",
        ),
        "",
    ),
    Finding(
        "core 26",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_part.py::test_a_success_is_followed_also_if_its_node_did_not_know_of_the_follower_yet",
        ),
        "",
    ),
    Finding(
        "core 27",
        State.WRONG,
        (),
        "account wrong (not reachable)",
    ),
    Finding(
        'core 29, scaling row "dispatch"',
        State.FIXED,
        (
            "tests/unit/jobs/core/test_dispatch.py::test_jobs_take_turns_by_how_many_of_their_runs_are_bound",
            "tests/unit/jobs/core/test_dispatch.py::test_of_jobs_with_as_many_bound_the_one_served_longest_ago_goes_first",
            "tests/unit/jobs/core/test_dispatch.py::test_the_work_does_not_grow_with_runs_times_nodes",
            "tests/unit/jobs/fleet/test_part.py::test_many_runs_of_one_job_do_not_hold_up_another_job",
        ),
        "",
    ),
    Finding(
        "core 9, 24",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_a_drains_deadline_is_by_the_stores_clock_whatever_the_leaders_shows",
            "tests/unit/placement/fleet/test_supervisor.py::test_a_node_is_avoided_for_as_long_as_it_should_whatever_the_leaders_clock_shows",
        ),
        "",
    ),
    Finding(
        "core 17 / v-streams-jobs D10",
        State.FIXED,
        ("tests/unit/jobs/doors/test_jobs.py::test_one_call_looks_at_so_many_runs_and_the_next_goes_on_behind_them",),
        "",
    ),
    Finding(
        "v-streams-jobs D7",
        State.FIXED,
        (
            "tests/unit/jobs/doors/test_jobs.py::test_a_request_with_an_idempotency_key_starts_one_run_however_often_it_is_asked",
            "tests/unit/jobs/doors/test_jobs.py::test_jobs_and_runs_over_http",
            "tests/unit/jobs/doors/test_jobs.py::test_jobs_and_runs_over_grpc",
        ),
        "",
    ),
    Finding(
        "v-streams-jobs D6",
        State.FIXED,
        (
            "tests/unit/jobs/doors/test_jobs.py::test_output_of_a_lost_attempt_is_never_called_whole",
            "tests/unit/jobs/node/test_output.py::test_who_follows_sees_glimpses_of_what_is_held_back",
            "tests/unit/jobs/node/test_output.py::test_a_glimpse_of_what_has_no_lines_is_its_newest_bytes",
            "tests/unit/jobs/node/test_output.py::test_a_log_within_its_bound_has_no_glimpses",
        ),
        "",
    ),
    Finding(
        "core 25",
        State.FIXED,
        (),
        "",
    ),
    Finding(
        "v-services S1",
        State.FIXED,
        (
            "tests/unit/services/core/test_dispatch.py::test_what_a_client_sent_before_it_closed_still_runs",
            "tests/unit/services/core/test_dispatch.py::test_what_is_routed_while_its_client_closes_still_runs",
            "tests/process/test_services_clients.py::test_what_a_client_sent_before_it_closed_runs",
            "tests/unit/client/test_clients.py::test_closing_with_unread_answers_resets_no_connection",
        ),
        "",
    ),
    Finding(
        "v-services S2",
        State.FIXED,
        ("tests/process/test_services_reload.py::test_a_request_longer_than_drain_outlives_a_reload",),
        "",
    ),
    Finding(
        "v-services S3",
        State.FIXED,
        ("tests/process/test_services.py::test_an_answer_after_its_handler_returned_is_refused_with_a_reason",),
        "",
    ),
    Finding(
        "v-services S4",
        State.FIXED,
        ("tests/process/test_services.py::test_a_worker_killed_at_its_deadline_leaves_its_stacks_and_an_event",),
        "",
    ),
    Finding(
        "v-services S7",
        State.FIXED,
        (
            "tests/unit/services/proxy/test_front.py::test_the_longest_silent_client_gives_way_when_all_places_are_taken",
            "tests/unit/services/proxy/test_front.py::test_a_silent_client_that_waits_for_an_answer_keeps_its_place",
        ),
        "",
    ),
    Finding(
        "flow D13",
        State.FIXED,
        (
            "tests/unit/services/proxy/test_front.py::test_a_client_that_closes_its_sending_side_is_answered_before_the_connection_ends",
            "tests/process/test_services_clients.py::test_a_client_that_closes_its_sending_side_gets_its_answers",
        ),
        "",
    ),
    Finding(
        "flow D14",
        State.FIXED,
        (
            "tests/unit/services/core/test_dispatch.py::test_what_waits_is_bounded_in_bytes",
            "tests/unit/services/proxy/test_front.py::test_answers_that_all_clients_leave_unread_are_bounded",
        ),
        "",
    ),
    Finding(
        "runtime 8",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_what_fails_on_every_node_waits_longer_and_longer",
            "tests/unit/placement/fleet/test_rests.py::test_a_resource_rests_from_the_node_where_it_failed_and_is_due_after_that",
            "tests/unit/placement/core/test_place.py::test_a_node_that_a_resource_rests_from_does_not_get_it_though_no_other_will_do",
        ),
        "",
    ),
    Finding(
        "v-resources S6",
        State.FIXED,
        ("tests/unit/placement/fleet/test_supervisor.py::test_the_first_node_of_a_new_fleet_does_not_get_everything",),
        "",
    ),
    Finding(
        "v-resources S7",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_a_node_that_comes_back_again_and_again_gets_no_tasks_for_balance_at_once",
            "tests/unit/fleet/core/members/test_flapping.py::test_each_return_waits_twice_as_long_up_to_a_limit",
        ),
        "",
    ),
    Finding(
        "v-resources S2 (leader's part)",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_plan.py::test_a_status_says_which_node_gave_the_resource_back_last",
            "tests/unit/views/test_overview.py::test_a_resource_that_was_given_back_lately_is_a_concern_although_it_has_all_its_tasks",
            "tests/unit/views/test_overview.py::test_of_a_resource_that_lacks_tasks_and_was_given_back_one_concern_says_both",
            "tests/unit/resources/cli/test_resources.py::test_a_list_says_who_gave_a_resource_back_lately",
            "tests/unit/doors/grpc/test_door.py::test_a_list_comes_in_pages",
        ),
        "",
    ),
    Finding(
        "core 15, brother (Group of a newer Rota)",
        State.FIXED,
        (
            "tests/unit/streams/fleet/test_keep.py::test_a_stream_with_a_group_of_a_newer_rota_is_left_alone_until_that_is_gone",
            "tests/unit/streams/task/test_run.py::test_a_group_that_a_newer_rota_wrote_is_waited_out_and_said",
        ),
        "",
    ),
    Finding(
        "core, Scaling shape: finished runs retention",
        State.FIXED,
        (
            "tests/unit/jobs/fleet/test_retention.py::test_a_job_with_very_many_runs_is_cleared_in_visits_that_read_a_bounded_number_of_them",
            "tests/unit/jobs/fleet/test_retention.py::test_a_job_that_cannot_have_too_many_runs_is_not_read_again_but_for_what_is_past_keeping",
            "tests/unit/jobs/fleet/test_retention.py::test_runs_that_came_in_among_the_older_ones_are_counted_within_the_hour",
            "tests/unit/jobs/fleet/test_retention.py::test_a_visit_follows_soon_while_there_is_more_to_look_at",
            "tests/unit/jobs/fleet/test_retention.py::test_runs_that_somebody_deleted_are_not_counted_when_others_are_too_many",
        ),
        "",
    ),
    Finding(
        "v-services S9 (leftovers)",
        State.FIXED,
        (
            "tests/unit/runtime/crew/test_wear.py::test_a_worker_that_has_used_up_its_memory_is_replaced",
            "tests/unit/runtime/loader/test_reload.py::test_a_failed_reload_does_not_say_that_a_generation_serves_on_that_has_no_worker",
        ),
        "",
    ),
    Finding(
        "v-resources row 25 ([supervisor] at HUP)",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_settings_of_a_reload_count_in_the_term_that_is_under_way",
            "tests/unit/placement/fleet/test_placing.py",
            "tests/process/test_declared.py::test_declared_resources_are_covered_and_follow_the_file",
        ),
        "",
    ),
    Finding(
        "readers: more tasks than slots",
        State.FIXED,
        (
            "tests/unit/placement/fleet/test_supervisor.py::test_nothing_is_planned_before_the_newest_of_several_commits_is_seen",
        ),
        "",
    ),
    Finding(
        "readers: last saved state",
        State.FIXED,
        (
            "tests/unit/resources/node/test_saves.py::test_what_is_being_written_is_unwritten_until_the_store_has_answered",
        ),
        "",
    ),
    Finding(
        "readers: workers that hang after their last request",
        State.FIXED,
        (
            "tests/process/test_services_reload.py::test_a_worker_whose_last_hook_hangs_is_ended_though_its_requests_have_no_limit",
        ),
        "",
    ),
    Finding(
        "readers: what was fixed does not rest",
        State.FIXED,
        ("tests/unit/placement/fleet/test_supervisor.py::test_what_was_mended_does_not_rest_for_what_failed_before",),
        "",
    ),
    Finding(
        "services S8",
        State.FIXED,
        (
            "tests/process/test_runtime_corners.py::test_daemons_end_with_a_killed_agent_and_with_their_worker_in_a_cgroup",
            "tests/process/test_runtime_corners.py::test_daemons_of_a_replaced_generation_end_and_those_of_its_import_when_nobody_can_go_back",
            "tests/process/test_runtime_corners.py::test_a_keeper_that_was_killed_costs_no_worker_and_leaves_no_cgroup",
            "tests/unit/runtime/system/test_enclosure.py::test_only_cgroups_that_carry_the_name_of_the_data_folder_are_touched",
        ),
        (
            "where the node may make no cgroups, a daemon outlives a killed agent until the node starts again: "
            "docs/explanation/processes.md#daemons says what holds where"
        ),
    ),
    Finding(
        "runtime 5",
        State.FIXED,
        (
            "tests/process/test_runtime_corners.py::test_a_task_that_ends_its_shared_host_again_and_again_is_set_apart_and_given_back",
            "tests/unit/resources/core/test_apart.py::test_the_task_at_fault_is_found_in_a_few_rounds",
        ),
        "the part about shared hosts; tasks alone were fixed before",
    ),
    Finding(
        "services S9",
        State.FIXED,
        (
            "tests/unit/runtime/crew/test_wear.py::test_a_worker_that_has_used_up_its_memory_is_replaced",
            "tests/unit/runtime/loader/test_reload.py::test_a_failed_reload_does_not_say_that_a_generation_serves_on_that_has_no_worker",
        ),
        (
            "max_memory and 'serves on' were fixed by 76ee02b; its tests existed at the commit this branch "
            "started from, so they do not fail there; nothing new was written"
        ),
    ),
    Finding(
        "services: a request that hangs keeps its old worker unseen",
        State.FIXED,
        (
            "tests/process/test_services_reload.py::test_a_request_that_keeps_an_old_worker_is_reported_with_its_age_and_process",
            "tests/unit/services/core/test_dispatch.py::test_a_worker_that_should_have_left_is_named_after_its_patience_and_again_after_twice_as_long",
        ),
        "it still stays until the node stops, by design: docs/explanation/services.md",
    ),
    Finding(
        "services: bytes of one UDP sender are bounded by the queue only",
        State.FIXED,
        ("tests/unit/services/proxy/test_front.py::test_the_datagrams_of_one_sender_leave_room_for_others",),
        "",
    ),
    Finding(
        "v-resources S2",
        State.FIXED,
        (
            "tests/process/test_failing.py::test_a_task_that_fails_again_and_again_is_a_concern_until_its_code_is_fixed",
            "tests/unit/resources/node/test_tasks.py::test_a_task_that_failed_twice_in_a_row_is_reported_until_it_has_stood_for_a_while",
            "tests/unit/resources/node/test_tasks.py::test_a_task_that_waits_because_it_failed_here_before_is_reported_and_one_with_other_code_is_not",
            "tests/unit/placement/fleet/test_supervisor.py::test_a_resource_that_was_given_back_is_failing_for_ten_minutes_although_it_has_all_its_tasks",
            "tests/unit/placement/fleet/test_supervisor.py::test_what_a_node_reports_as_failing_is_in_the_status_until_it_is_reported_no_more",
            "tests/unit/views/test_overview.py::test_a_resource_that_fails_is_a_concern_that_names_node_and_reason_and_is_counted",
            "tests/unit/views/test_overview.py::test_what_fails_is_found_without_reading_all_resources",
            "tests/unit/resources/cli/test_resources.py::test_a_list_says_which_resources_fail_and_how_many_of_their_tasks_run",
        ),
        (
            "a node names 50 failing tasks; beyond that the overview says how many. A silent task counts as "
            "failing for ten minutes after it was given back"
        ),
    ),
    Finding(
        "dead letters: a durable place (issue 22)",
        State.FIXED,
        (
            "tests/contract/test_committer.py::test_law_11_letters_come_with_their_offsets_and_only_then",
            "tests/contract/test_committer.py::test_law_11_after_a_reset_the_same_letter_may_come_again",
            "tests/unit/streams/task/test_run.py::test_an_output_that_keeps_letters_gets_all_of_a_sequence_with_its_publish_also_if_it_is_made_again",
            "tests/unit/streams/task/test_run.py::test_many_bytes_of_letters_ask_for_a_checkpoint",
        ),
        (
            "no command lists or replays letters; outputs of other packages keep the node's file (256 MiB, then "
            "the stream stops)"
        ),
    ),
    Finding(
        "runs by state (v-streams-jobs D10, the rest)",
        State.JUDGED,
        (
            "tests/unit/jobs/cli/test_runs.py::test_a_list_by_state_looks_at_so_many_runs_and_says_where_to_go_on",
            "tests/unit/jobs/doors/test_jobs.py::test_one_call_looks_at_so_many_runs_and_the_next_goes_on_behind_them",
        ),
        (
            "no index: an older node beside would end runs without keeping it (docs/scale.md); the work is "
            "bounded and the answer says how far it looked"
        ),
    ),
    Finding(
        "rota plan does not know rests",
        State.FIXED,
        ("tests/unit/placement/doors/test_planning.py::test_a_plan_leaves_out_nodes_that_a_resource_rests_from",),
        "a plan cannot see that a node was reloaded since; docs/howto/plan-balance-drain.md says so",
    ),
    Finding(
        "backfill of a job made today needs --force",
        State.JUDGED,
        (),
        (
            "stays refused: a job of the name may have been there before; message and docs/howto/run-jobs.md say "
            "when --force is safe"
        ),
    ),
    Finding(
        'v-resources "Awkward"',
        State.FIXED,
        (
            "tests/unit/relay/process/test_shell.py::test_a_spool_that_refuses_is_logged_once_until_it_has_taken_something",
            "tests/unit/compose/test_readiness.py::test_readiness_names_what_is_in_the_way_and_not_what_follows_from_it",
            "tests/unit/cli/terminal/test_own_log.py::test_what_grpc_says_of_its_connections_is_not_among_our_lines",
        ),
    ),
    Finding(
        "v-services S5 (readiness of services)",
        State.FIXED,
        (
            "tests/system/test_up_services.py::test_readiness_of_a_plain_node_names_the_service_that_does_not_listen",
            "tests/system/test_up_services.py::test_a_fleet_with_a_service_that_cannot_listen_is_not_ready_until_it_can",
        ),
        "",
    ),
    Finding(
        "v-services S6 (a drained node goes on serving)",
        State.JUDGED,
        (),
        (
            "the issue about services for a fleet builds it with the registry (issue 28, item 1); "
            "docs/howto/plan-balance-drain.md says that services stay"
        ),
    ),
    Finding(
        "reading 3 W1 (a machine that was restarted refuses its own nodes)",
        State.FIXED,
        (
            "tests/unit/fleet/members/test_session.py::test_records_of_nodes_that_died_with_the_machine_only_make_a_node_wait",
            "tests/unit/fleet/members/test_session.py::test_a_node_that_a_living_one_cannot_call_is_refused",
        ),
        "",
    ),
    Finding(
        "reading 3 W2 (a node that lost its session ends because of one that came later)",
        State.FIXED,
        (
            "tests/unit/fleet/members/test_session.py::test_a_node_that_was_in_the_fleet_is_not_ended_because_of_one_that_came_later",
        ),
        "",
    ),
    Finding(
        "reading 3 W3 (rollback of a release behind a link is lost at a restart)",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_kept.py::test_a_release_that_was_gone_back_to_is_kept_while_the_link_leads_to_another",
            "tests/unit/runtime/loader/test_kept.py::test_an_app_is_loaded_from_what_is_kept_and_not_from_where_its_link_leads",
        ),
        "",
    ),
    Finding(
        "reading 3 W4 (kept code with a compiled module cannot be loaded)",
        State.FIXED,
        ("tests/unit/runtime/loader/test_kept.py::test_a_compiled_module_is_told_apart_and_not_kept",),
        "compiled modules come from the disk, as they are now",
    ),
    Finding(
        "reading 3 W5 (a node that reaches the store for renewals alone keeps its lease)",
        State.FIXED,
        (
            "tests/unit/store/leases/test_keeper.py::test_a_holder_whose_own_store_is_silent_loses_its_lease_however_well_renewals_go",
            "tests/unit/store/leases/test_keeper.py::test_a_holder_whose_own_store_was_silent_for_a_while_keeps_its_lease",
        ),
        "",
    ),
    Finding(
        "reading 3 W6 (runs behind their job's own limit are reported as without a node)",
        State.FIXED,
        (
            "tests/unit/compose/test_waits.py::test_a_run_that_waits_for_its_jobs_own_limit_is_not_told_until_it_waits_for_a_node",
        ),
        "",
    ),
    Finding(
        "reading 3 W7 (a stream stops at its first dead letter where its user may make no tables)",
        State.FIXED,
        ("tests/contract/test_committer.py::test_who_may_not_make_the_table_of_letters_publishes_without_it",),
        "",
    ),
    Finding(
        "reading 3 W8 (what waits at a shared port is lost when the only node is killed)",
        State.FIXED,
        (
            "tests/unit/services/node/test_shared_sockets.py::test_what_waits_at_a_socket_outlives_the_death_of_its_only_user",
            "tests/unit/services/node/test_shared_sockets.py::test_what_a_dead_node_had_is_closed_when_it_comes_back_without_services_or_not_at_all",
            "tests/system/test_up_services.py::test_what_waits_at_the_port_outlives_the_only_node",
        ),
        "",
    ),
)
