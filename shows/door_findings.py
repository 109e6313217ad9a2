"""The findings of the hostile reading of the doors and of a new user at c43186e, and what became of each.

Names are those of the accounts: `doors` with the letter and number of the hostile reading, `ux` with the section of the
new user's account. `PARTS=findings make show-doors` runs the tests.
"""

from shows.finding import Finding, State

BEFORE = "2b45957"
"""The commit from which the work began. Most tests were written beside the fix and name what was not there yet."""

FINDINGS = (
    Finding(
        "doors H1",
        State.FIXED,
        (
            "tests/unit/fleet/doors/test_tokens.py::test_a_rotated_token_stays_refused_where_the_nodes_own_file_has_it",
            "tests/unit/fleet/doors/test_tokens.py::test_a_revoked_token_stays_refused_when_its_name_is_made_anew_or_its_record_deleted",
            "tests/unit/fleet/doors/test_tokens.py::test_what_an_older_rota_wrote_and_rotated_stays_refused_too",
            "tests/unit/fleet/doors/test_tokens.py::test_a_nodes_own_token_opens_nothing_before_the_store_was_asked",
            "tests/unit/fleet/access/test_tokens.py::test_a_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing",
            "tests/unit/relay/process/test_shell.py::test_a_line_ends_with_its_token_and_comes_again_with_the_new_one",
            "tests/system/test_rotation.py::test_the_token_of_two_nodes_is_rotated_without_a_restart_and_the_old_one_stays_refused",
        ),
        "",
    ),
    Finding(
        "doors H3",
        State.FIXED,
        (
            "tests/system/test_taken_back.py::test_a_token_that_is_taken_back_is_refused_at_every_door_of_every_node",
            "tests/system/test_taken_back.py::test_every_stream_there_is_was_tried",
        ),
        "a change that was let in (POST with wait) is carried through",
    ),
    Finding(
        "doors M4",
        State.FIXED,
        (
            "tests/unit/doors/http/test_session.py::test_a_token_becomes_a_cookie_that_does_not_have_it_and_that_scripts_cannot_read",
            "tests/unit/doors/http/test_session.py::test_a_session_counts_at_every_node_and_ends_at_every_node",
            "tests/unit/doors/http/test_session.py::test_a_session_ends_with_its_token_and_after_its_time",
        ),
        "",
    ),
    Finding(
        "doors M7",
        State.FIXED,
        (
            "tests/unit/doors/http/test_once.py::test_a_change_with_a_key_is_made_once_and_answered_twice",
            "tests/unit/doors/http/test_once.py::test_callers_do_not_share_keys",
            "tests/unit/doors/http/test_once.py::test_an_outcome_that_is_unknown_is_found_again",
            "tests/unit/doors/http/test_once.py::test_what_only_a_node_does_takes_no_key",
        ),
        "over gRPC only Resources/Create and Jobs/Start take a key; elsewhere it is refused (docs/reference/api.md)",
    ),
    Finding(
        "doors L1",
        State.FIXED,
        ("tests/system/test_safety.py::test_a_node_keeps_strangers_out_of_both_doors",),
        "",
    ),
    Finding(
        "doors L2",
        State.FIXED,
        (
            "tests/unit/fleet/doors/test_tokens.py::test_nobody_revokes_more_than_it_has_nor_takes_the_name_of_a_nodes_own_token",
        ),
        "that a hook's command runs as the node's user is documented in docs/howto/keep-strangers-out.md",
    ),
    Finding(
        "doors L3",
        State.FIXED,
        (
            "tests/unit/fleet/doors/test_tokens.py::test_nobody_revokes_more_than_it_has_nor_takes_the_name_of_a_nodes_own_token",
        ),
        "",
    ),
    Finding(
        "doors L6",
        State.FIXED,
        (
            "tests/unit/fleet/core/audit/test_chain.py::test_a_noted_hash_that_retention_has_cleared_is_a_doubt_and_not_an_alarm",
        ),
        "entries of a newer Rota were fixed before (fleet/audit/sealing.py uses understood)",
    ),
    Finding(
        "doors H2",
        State.FIXED,
        (
            "tests/process/test_crowd.py::test_no_viewer_costs_a_node_its_lease",
            "tests/process/test_crowd.py::test_every_operation_of_both_doors_is_asked",
            "tests/contract/test_renewal.py::test_a_lease_outlives_a_loop_that_is_held_by_turns_and_used_in_between",
            "tests/unit/store/leases/test_renewal.py::test_a_lease_is_renewed_while_something_holds_the_event_loop",
            "tests/unit/store/leases/test_renewal.py::test_a_loop_that_stands_still_for_longer_is_not_renewed_for",
            "tests/unit/jobs/doors/test_jobs.py::test_one_caller_that_asks_for_many_heavy_views_is_told_to_wait",
            "tests/unit/jobs/core/test_preview.py::test_a_look_ahead_at_a_rare_schedule_ends_at_the_horizon",
            "tests/unit/doors/guard/test_budget.py::test_many_calls_share_a_turn_of_the_loop_and_leave_others_theirs",
        ),
        "leases in a thread of their own; heavy views in threads, one per token; calls are paced and charged; ADR 55",
    ),
    Finding(
        "doors M1",
        State.FIXED,
        (
            "tests/system/test_doors.py::test_forwarded_headers_are_not_believed_even_of_the_loopback",
            "tests/system/test_doors.py::test_forwarded_headers_of_a_trusted_proxy_name_the_caller_and_the_proxy",
            "tests/unit/doors/http/test_entry.py::test_callers_behind_one_proxy_are_limited_apart_and_the_trail_has_both_addresses",
        ),
        "setting trusted_proxies, empty by default",
    ),
    Finding(
        "doors M2",
        State.FIXED,
        (
            "tests/system/test_doors.py::test_connections_that_ask_nothing_keep_no_caller_out",
            "tests/system/test_doors.py::test_where_all_connections_are_busy_probes_are_answered_and_others_told_to_come_later",
            "tests/system/test_doors.py::test_what_is_not_http_is_refused_with_a_code",
            "tests/unit/doors/guard/test_places.py::test_the_oldest_connection_that_never_asked_makes_way",
        ),
        "HTTP; gRPC has no cap of connections per address (2500 idle ones did no harm in the account)",
    ),
    Finding(
        "doors M3",
        State.FIXED,
        ("tests/unit/fleet/hooks/test_carry.py::test_of_an_answer_only_the_status_is_read_however_long_it_is",),
        "and answers of other nodes are bounded to 4 MiB; the OpenTelemetry exporter reads answers its own way",
    ),
    Finding(
        "doors M5",
        State.FIXED,
        (
            "tests/process/test_confinement.py::test_another_user_can_read_nothing_of_the_nodes_however_well_it_guesses",
            "tests/process/test_confinement.py::test_the_app_runs_as_another_user_and_cannot_look_into_the_data_folder",
            "tests/process/test_confinement.py::test_dead_letters_of_another_user_have_a_place",
            "tests/contract/test_sqlite_only.py::test_a_new_store_is_its_owners_alone_with_all_that_sqlite_keeps_beside_it",
            "tests/contract/test_sqlite_only.py::test_a_store_that_others_could_read_is_narrowed_and_the_log_says_so",
            "tests/unit/runtime/system/test_data_folder.py::test_a_folder_that_others_could_enter_is_narrowed_and_the_log_says_so",
            "tests/unit/runtime/test_control_socket.py::test_no_other_user_can_connect_even_before_its_mode_is_set",
        ),
        (
            "explicit modes instead of a umask in the agent: the leader also makes folders of streams' outputs, "
            "which others read"
        ),
    ),
    Finding(
        "doors M6",
        State.FIXED,
        (
            "tests/process/test_confinement.py::test_the_app_of_another_user_gets_no_variable_that_holds_a_secret_of_the_nodes",
            "tests/unit/runtime/system/test_confine.py::test_variables_that_hold_a_secret_of_the_nodes_are_withheld",
            "tests/unit/runtime/system/test_confine.py::test_a_password_that_the_node_has_elsewhere_leaves_the_drivers_variable_to_the_app",
        ),
        (
            "partly wrong: stores take no password_env (only sinks do); PGPASSWORD, which asyncpg reads, was "
            "real. Unconfined apps and OTEL headers: judged in docs/howto/keep-strangers-out.md"
        ),
    ),
    Finding(
        "doors L2 (second half)",
        State.FIXED,
        (
            "tests/process/test_confinement.py::test_commands_of_the_api_do_not_run_as_root",
            "tests/unit/runtime/system/test_confine.py::test_commands_of_the_api_never_run_as_root_by_accident",
            "tests/unit/runtime/system/test_confine.py::test_where_there_is_no_nobody_commands_of_the_api_are_refused",
            "tests/unit/runtime/system/test_confine.py::test_commands_of_a_node_that_is_root_get_hardly_any_of_its_variables",
        ),
        "new section [commands]; a node that is not root runs them as itself, as before",
    ),
    Finding(
        "doors L4",
        State.FIXED,
        (
            "tests/process/test_terminal.py::test_nothing_that_others_wrote_reaches_a_terminal_but_colours_of_runs",
            "tests/unit/cli/test_plain.py::test_tables_lines_and_errors_are_plain",
            "tests/unit/cli/test_plain.py::test_commands_print_what_a_fleet_said_only_by_way_of_the_tables",
            "tests/unit/cli/test_plain.py::test_output_keeps_its_colours_and_nothing_else_however_it_comes",
        ),
        "",
    ),
    Finding(
        "doors L5",
        State.FIXED,
        (
            "tests/unit/fleet/doors/test_hooks.py::test_arguments_and_output_of_commands_are_for_admins_alone",
            "tests/unit/fleet/doors/test_hooks.py::test_the_doors_show_viewers_no_arguments",
        ),
        "",
    ),
    Finding(
        "doors L7",
        State.FIXED,
        (
            "tests/architecture/test_deploy.py::test_the_unit_keeps_the_node_from_the_rest_of_the_machine",
            "tests/architecture/test_deploy.py::test_systemd_itself_has_nothing_against_the_files",
            "tests/architecture/test_deploy.py::test_systemd_would_find_a_mistake_in_the_file",
            "tests/process/test_confinement.py::test_a_node_with_no_more_of_root_than_its_unit_leaves_it_runs_the_app_as_another",
            "tests/architecture/test_docker.py::test_everything_that_the_image_installs_is_locked_with_hashes",
            "tests/architecture/test_docker.py::test_what_is_locked_for_the_image_is_what_the_project_asks_for_and_the_tests_have_tried",
        ),
        "checked by systemd-analyze verify and security; not run under a real systemd",
    ),
    Finding(
        "doors L7 (base images by tag)",
        State.JUDGED,
        (),
        "digests cannot be looked up here; SECURITY.md (Base images) and the Dockerfile say to pin them",
    ),
    Finding(
        "doors L8",
        State.FIXED,
        (
            "tests/process/test_confinement.py::test_the_app_of_another_user_gets_no_variable_that_holds_a_secret_of_the_nodes",
            "tests/unit/runtime/system/test_confine.py::test_processes_are_counted_by_user_so_the_limit_needs_one",
        ),
        (
            "max_processes and hard core limit 0; no seccomp and no cgroup: judged in SECURITY.md and "
            "docs/howto/keep-strangers-out.md"
        ),
    ),
    Finding(
        "doors API errors without a code",
        State.FIXED,
        (
            "tests/unit/doors/http/test_problems.py::test_each_refusal_has_its_code",
            "tests/unit/doors/http/test_problems.py::test_the_code_over_grpc_is_the_one_over_http",
            "tests/unit/doors/http/test_problems.py::test_a_refusal_is_a_problem_of_rfc_9457",
            "tests/unit/model/test_problems.py::test_the_source_names_only_codes_of_the_table_and_every_one_of_them",
        ),
        "RFC 9457 over HTTP, ErrorInfo over gRPC; docs/reference/errors.md",
    ),
    Finding(
        "doors API uvicorn 400 and 503 as text",
        State.FIXED,
        ("tests/system/test_doors.py::test_headers_without_end_are_refused",),
        "",
    ),
    Finding(
        "doors API 404 lists 70 routes",
        State.FIXED,
        (
            "tests/unit/doors/http/test_problems.py::test_the_nearest_path_is_suggested",
            "tests/unit/doors/http/test_problems.py::test_a_path_that_is_not_there_is_answered_shortly",
        ),
        "",
    ),
    Finding(
        "doors API description without texts, roles, errors, paths",
        State.FIXED,
        (
            "tests/unit/doors/http/test_openapi.py::test_it_is_valid",
            "tests/unit/doors/http/test_openapi.py::test_every_property_of_every_record_is_described",
            "tests/unit/doors/http/test_openapi.py::test_every_operation_is_described",
            "tests/unit/doors/http/test_openapi.py::test_every_operation_names_its_role_and_its_errors",
            "tests/unit/doors/http/test_openapi.py::test_it_has_every_route_of_the_door",
        ),
        "a generated client makes 15 calls: python -m tests.kit.generated_client",
    ),
    Finding(
        "doors API durations do not round-trip",
        State.FIXED,
        (
            "tests/unit/fleet/doors/test_hooks.py::test_a_duration_is_accepted_as_it_is_answered_and_as_programs_write_it",
            "tests/unit/kit/time/test_durations.py::test_what_programs_write_is_parsed_to_the_same",
            "tests/unit/doors/http/test_routes.py::test_durations_of_a_kind_are_written_as_people_write_them",
        ),
        "timedelta fields of an app's own spec types still take ISO 8601 alone",
    ),
    Finding(
        "doors API lists without pages, no GET of one",
        State.FIXED,
        (
            "tests/unit/doors/test_paging.py::test_lists_come_in_pages_over_http",
            "tests/unit/doors/test_paging.py::test_lists_come_in_pages_over_grpc",
            "tests/unit/doors/test_paging.py::test_events_are_read_further_back_over_http",
            "tests/unit/doors/test_paging.py::test_one_node_hook_and_token_over_http",
            "tests/unit/doors/test_paging.py::test_one_node_hook_and_token_over_grpc",
            "tests/unit/fleet/audit/test_sealing.py::test_the_trail_is_read_back_to_its_beginning_page_by_page_while_it_is_sealed",
        ),
        "",
    ),
    Finding(
        "doors API POST without a body is 415",
        State.FIXED,
        ("tests/unit/doors/http/test_routes.py::test_a_verb_without_a_body_needs_no_content_type",),
        "",
    ),
    Finding(
        "ux 6 no /docs",
        State.FIXED,
        (
            "tests/browser/test_reference.py::test_every_operation_is_shown_and_nothing_is_loaded_from_elsewhere",
            "tests/browser/test_reference.py::test_an_operation_says_its_role_its_parameters_and_its_errors_and_can_be_tried",
        ),
        "the description still needs a token, and so the page asks for one",
    ),
    Finding(
        "doors dashboard 7",
        State.FIXED,
        ("tests/browser/test_around.py::test_a_button_that_needs_another_role_cannot_be_pressed_and_says_which",),
        "",
    ),
    Finding(
        "doors dashboard 8",
        State.FIXED,
        (
            "tests/browser/test_around.py::test_a_job_without_a_limit_says_so",
            "tests/browser/test_around.py::test_groups_of_streams_are_not_counted_as_resources",
            "tests/browser/test_around.py::test_the_trail_shows_outcomes_on_a_telephone",
            "tests/browser/test_around.py::test_every_figure_of_a_stream_is_within_its_card_on_a_telephone",
            "tests/browser/test_around.py::test_columns_stand_side_by_side_and_the_header_goes_to_the_edge",
            "tests/browser/test_around.py::test_language_and_colours_are_chosen_and_kept",
            "tests/browser/test_around.py::test_what_a_list_is_narrowed_to_stands_in_the_address",
        ),
        "",
    ),
    Finding(
        "doors dashboard 1 to 6 (over time, filters of runs, chains, search in output, bulk, more verbs)",
        State.JUDGED,
        (),
        "wishes, not faults: the issue about metrics and history (29) has them",
    ),
    Finding(
        "ux dashboard badge 2 of 4",
        State.FIXED,
        ("tests/browser/test_around.py::test_the_badge_counts_what_the_overview_lists",),
        "",
    ),
    Finding(
        "ux 1 first command is a traceback",
        State.FIXED,
        (
            "tests/unit/cli/commands/test_leaves.py::test_without_a_fleet_one_sentence_names_the_next_move",
            "tests/system/test_up.py::test_commands_beside_it_find_its_fleet_while_it_runs_and_after",
        ),
        "",
    ),
    Finding(
        "ux 1 click 8.1 to 8.3",
        State.FIXED,
        (
            "tests/system/test_click.py::test_every_command_works_with_every_click_that_is_allowed",
            "tests/system/test_click.py::test_the_pythons_to_try_begin_with_the_oldest_that_is_allowed_and_this_one_is_found",
        ),
        "lower bound stays click>=8.1; PARTS=pythons tries the oldest and the newest Python that there are",
    ),
    Finding(
        "ux 4 reach",
        State.FIXED,
        (
            "tests/system/test_cli_server.py::test_every_role_may_do_what_it_is_for_and_nothing_else",
            "tests/system/test_cli_server.py::test_both_ways_show_the_same",
            "tests/system/test_cli_server.py::test_a_context_is_used_where_nothing_else_names_a_fleet",
            "tests/unit/cli/reach/test_remote.py",
        ),
        "not through the doors: streams read and verify, tls, log, store, stop",
    ),
    Finding(
        "ux 5 deploy, roll back",
        State.FIXED,
        (
            "tests/system/test_cli_server.py::test_services_and_code_through_the_doors",
            "tests/system/test_cli_server.py::test_the_first_node_that_fails_ends_it_and_the_message_says_which_were_done_and_which_were_not",
        ),
        "",
    ),
    Finding(
        "ux 3 rota top, services scale",
        State.FIXED,
        (
            "tests/unit/cli/test_verbs.py::test_nothing_that_destroys_is_suggested",
            "tests/unit/cli/test_verbs.py::test_words_of_other_tools_are_understood",
        ),
        "",
    ),
    Finding(
        "ux 3 second rota up",
        State.FIXED,
        (
            "tests/system/test_up.py::test_a_second_one_in_the_same_folder_refuses",
            "tests/system/test_up.py::test_a_port_that_is_taken_is_an_error_that_names_the_option",
            "tests/system/test_up.py::test_an_address_of_the_settings_that_is_taken_names_the_setting",
            "tests/system/test_up.py::test_a_folder_that_cannot_be_written_is_refused_without_options_that_there_are_not",
        ),
        "",
    ),
    Finding(
        "ux 3 resources get room/r00",
        State.FIXED,
        ("tests/unit/cli/test_verbs.py::test_a_resource_may_be_named_in_one_word",),
        "",
    ),
    Finding(
        "ux 3 events --kind nosuch",
        State.FIXED,
        ("tests/unit/cli/test_verbs.py::test_a_kind_of_events_that_there_is_not_is_refused",),
        "",
    ),
    Finding(
        "ux 2 logs of the last run",
        State.FIXED,
        ("tests/unit/cli/test_verbs.py::test_the_newest_run_of_a_job_is_named_by_the_job",),
        "runs logs --last JOB; also rota logs",
    ),
    Finding(
        "ux 4 completion",
        State.FIXED,
        (
            "tests/unit/cli/commands/test_completion.py::test_an_app_is_completed_as_a_file",
            "tests/system/test_completion.py::test_names_come_from_the_fleet_through_the_doors_and_from_the_store",
            "tests/system/test_completion.py::test_where_there_is_no_fleet_nothing_is_offered",
            "tests/system/test_completion.py::test_a_fleet_that_never_answers_is_not_waited_for",
        ),
        "kinds are those of the nodes that are up; tokens for admins alone",
    ),
    Finding(
        "ux 4 -o json",
        State.FIXED,
        (
            "tests/system/test_output.py::test_every_command_has_json_or_the_reference_says_why_not",
            "tests/system/test_output.py::test_help_and_reference_say_which_shape_it_has",
            "tests/system/test_output.py::test_what_each_command_prints_has_its_shape",
            "tests/system/test_output.py::test_what_was_done_before_an_error_is_printed",
            "tests/system/test_services_cli.py::test_a_node_without_services_says_so",
        ),
        "6 commands have none; docs/reference/cli.md, Output for programs, says why",
    ),
    Finding(
        "ux 4 colour",
        State.FIXED,
        (
            "tests/unit/cli/terminal/test_colours.py::test_every_state_is_good_bad_on_its_way_or_neither",
            "tests/unit/cli/terminal/test_colours.py::test_a_terminal_shows_states_in_their_colours_and_nothing_else",
            "tests/unit/cli/terminal/test_colours.py::test_who_wants_no_colours_gets_no_escape_at_all",
            "tests/unit/cli/terminal/test_colours.py::test_json_has_no_colours_on_a_terminal_either",
        ),
        "",
    ),
    Finding(
        "ux 1 fixed port with rota up --nodes 3",
        State.FIXED,
        (
            "tests/system/test_up_services.py::test_all_nodes_answer_at_one_fixed_port",
            "tests/system/test_up_services.py::test_what_waits_at_the_port_outlives_the_node_that_is_killed",
            "tests/system/test_up_services.py::test_a_reload_that_moves_the_port_gives_the_old_one_back",
            "tests/unit/services/node/test_shared_sockets.py",
        ),
        (
            "rota up binds once and lends the socket (TCP and UDP); an admin address of a service is not shared. "
            "The UDP case of the second test timed out twice in early runs on a loaded machine and not in 20 "
            "later ones; not explained"
        ),
    ),
    Finding(
        "ux 1 readyz of a node whose service does not listen",
        State.FIXED,
        (
            "tests/system/test_up_services.py::test_readiness_of_a_plain_node_names_the_service_that_does_not_listen",
            "tests/system/test_up_services.py::test_a_fleet_with_a_service_that_cannot_listen_is_not_ready_until_it_can",
        ),
        "",
    ),
    Finding(
        "ux 1 README by hand",
        State.FIXED,
        ("tests/system/test_readme.py::test_what_the_readme_says_by_hand_works_as_written",),
        "the example's log was /clicks of the root folder; it is below .rota now, and the README makes it",
    ),
    Finding(
        "ux 5 two machines by the README's line",
        State.FIXED,
        (
            "tests/system/test_several_machines.py::test_a_node_that_the_others_cannot_call_does_not_join_and_status_says_which_is_wrong",
            "tests/unit/fleet/core/members/test_reach.py",
        ),
        (
            "a node named by --advertise is taken as it is; different tokens refuse only a node that made its "
            "own, else a rotation could not be rolled out"
        ),
    ),
    Finding(
        "ux 5 no page has the whole recipe",
        State.FIXED,
        (
            "tests/system/test_several_machines.py::test_the_page_does_what_it_says_on_three_machines",
            "tests/unit/fleet/access/test_tickets.py",
            "tests/system/test_tickets_cli.py",
        ),
        "with rota ticket and rota join; the test is etcd and TLS in network namespaces",
    ),
    Finding(
        "ux 3.1 file:// sink with several nodes",
        State.FIXED,
        (
            "tests/system/test_up_services.py::test_each_node_writes_a_file_of_its_own",
            "tests/system/test_up_services.py::test_a_file_that_another_node_has_is_refused_with_what_to_write",
        ),
        "a plain file:// still has one writer; the line in rota up and rota status says what to write",
    ),
    Finding(
        "ux 1 minimal install",
        State.FIXED,
        ("tests/system/test_up_services.py::test_a_fleet_of_one_machine_runs_without_grpc",),
        "jobs start seconds later without it, and a warning names the extra",
    ),
    Finding(
        "ux 1/5 stale pages",
        State.FIXED,
        (
            "tests/architecture/test_docs.py",
            "tests/architecture/test_docs.py::test_the_readme_is_short_and_shows_the_dashboard_in_a_small_picture",
        ),
        "",
    ),
    Finding(
        "ux 1: no pip install in the README, no comparison with other programs",
        State.JUDGED,
        (),
        "on no index before the first release, as the README says; it names what to use instead, and when",
    ),
    Finding(
        "ux 7 sentences",
        State.JUDGED,
        (),
        "those named are rewritten, and their like in help, events and the dashboard; no test knows plain English",
    ),
    Finding(
        "ux 2 COMMITTED above LATEST",
        State.FIXED,
        ("tests/unit/streams/doors/test_streams.py::test_a_source_does_not_end_before_what_was_published_of_it",),
        "",
    ),
    Finding(
        "ux 2 1 groups of 1",
        State.FIXED,
        ("tests/unit/streams/cli/test_streams.py::test_one_group_of_one_task_is_counted_as_one",),
        "",
    ),
    Finding(
        "ux 3.5 warming up, again and again",
        State.FIXED,
        ("tests/unit/placement/fleet/test_supervisor.py::test_a_warm_up_names_the_missing_nodes_once",),
        "that a new fleet moves tasks at once was not looked at again",
    ),
    Finding(
        "ux 3 postgres:// gets no hint",
        State.FIXED,
        ("tests/unit/model/test_adapters.py::test_a_scheme_that_others_call_otherwise_is_suggested",),
        "",
    ),
    Finding(
        "ux 3 log tail /path suggests kafka://",
        State.WRONG,
        (),
        "rota log tail reads Kafka too; create, grow and append, which do not, name log:// alone now",
    ),
    Finding(
        "ux 3 a thread that the import leaves running",
        State.JUDGED,
        ("tests/process/test_runtime.py::test_threads_left_by_the_import_are_named_and_forking_is_refused",),
        "never given up on purpose (docs/explanation/promises.md); rota up says after 60 s that it is not ready",
    ),
    Finding(
        "ux 3.3 results of jobs, 3.4 groups of streams in resources ls, 3.6 JSON in JSON, 3.7 finding a service",
        State.JUDGED,
        (),
        "results: issue 27; finding a service: issue 28; that a stream's groups are resources is in docs/adr/0043",
    ),
    Finding(
        "ux 5: metrics of jobs, runs, resources and streams, rules for alerts, traces, hooks by job",
        State.JUDGED,
        (),
        "issue 29 is about them",
    ),
    Finding(
        "ux 6 no Python client of the control API",
        State.JUDGED,
        (),
        "issue 27 builds it; a client generated from the description makes fifteen calls already",
    ),
    Finding(
        "ux 3: queue.py or json.py beside the app",
        State.FIXED,
        (
            "tests/system/test_up.py::test_modules_beside_the_app_that_are_called_like_pythons_own_break_nothing_of_rotas",
        ),
        "`python -m rota` typed by hand in such a folder still takes the file; the console script does not",
    ),
    Finding(
        "ux 1: fork beside native threads on Python 3.12 and newer",
        State.FIXED,
        (
            "tests/unit/runtime/worker/test_forks.py::test_the_warning_about_native_threads_is_not_shown_and_others_are",
            "tests/unit/runtime/worker/test_forks.py::test_native_threads_that_are_not_known_to_be_harmless_are_named",
        ),
        (
            "judged: pyarrow 26.0.1 starts only jemalloc's thread; that it survives forks is jemalloc's "
            "documented way, not proven here. By hand on 3.13.0: workers came up without the warning, one forked "
            "child computed; no job was run, 3.12 was not tried, and CI's 3.11 has no such warning"
        ),
    ),
    Finding(
        "ux 2/5: rollback is gone after a restart",
        State.FIXED,
        (
            "tests/process/test_runtime_corners.py::test_code_that_was_gone_back_to_outlives_kill_9_of_the_node_and_of_its_loader_until_a_reload",
            "tests/unit/runtime/loader/test_kept.py::test_code_is_kept_until_its_files_change",
        ),
        "the copy has the app's own imported modules, no other files and no late imports: docs/howto/run-an-app.md",
    ),
    Finding(
        "ux 5: no version or digest of the code",
        State.FIXED,
        (
            "tests/unit/runtime/loader/test_kept.py::test_the_digest_is_the_same_in_every_folder_and_another_for_other_code",
        ),
        "the digest and version are tested; that rota status, /v1/nodes, gRPC and the dashboard show them is not",
    ),
    Finding(
        "why for runs, jobs and streams (issue 23, item 11)",
        State.FIXED,
        (
            "tests/unit/jobs/core/test_why.py",
            "tests/unit/streams/core/test_why.py",
            "tests/unit/jobs/doors/test_why.py::test_a_run_waits_for_the_limit_of_its_job",
            "tests/unit/jobs/doors/test_why.py::test_a_run_waits_for_a_node_that_has_its_labels_is_open_and_has_an_executor_free",
            "tests/unit/jobs/doors/test_why.py::test_a_run_waits_for_its_back_off",
            "tests/unit/jobs/doors/test_why.py::test_no_more_runs_are_read_than_a_limit",
        ),
        "shares of nodes that fell lately (the ramp) are in the memory of each node and not counted",
    ),
    Finding(
        "events for what waits (issue 23, item 11)",
        State.FIXED,
        (
            "tests/unit/fleet/core/events/test_waiting.py",
            "tests/unit/compose/test_waits.py::test_what_waits_too_long_is_told_once_also_by_another_leader_and_so_is_its_end",
            "tests/unit/compose/test_waits.py::test_what_waits_for_a_short_time_or_is_switched_off_is_not_told",
            "tests/unit/compose/test_waits.py::test_the_end_of_what_is_gone_is_told_too",
        ),
        "stream.lags is off until supervisor.lag_limit is set: no number of records is right for every stream",
    ),
    Finding(
        "ux 4: runs ls --since --node",
        State.FIXED,
        (
            "tests/unit/jobs/doors/test_jobs.py::test_runs_are_listed_by_the_node_that_had_an_attempt_and_from_a_due_time_on",
            "tests/unit/jobs/doors/test_jobs.py::test_a_run_is_listed_for_the_nodes_of_its_earlier_attempts",
            "tests/unit/jobs/cli/test_runs.py::test_runs_since_a_time_or_some_time_ago",
        ),
        "judged: no --tag, for jobs and runs have none; labels of a job are what it needs of a node, no name",
    ),
    Finding(
        "ux 4: nodes label",
        State.FIXED,
        (
            "tests/unit/fleet/doors/nodes/test_labels.py",
            "tests/unit/placement/fleet/test_view.py::test_labels_that_an_operator_sets_have_what_waits_looked_at_again",
            "tests/unit/jobs/fleet/test_members.py::test_labels_that_an_operator_set_count_for_jobs",
            "tests/process/test_moves.py::test_the_command_that_why_names_labels_the_node_and_the_resource_is_placed",
        ),
        "judged: what a node holds stays when its labels change, as when those of a resource do; a drain moves it",
    ),
    Finding(
        "ux 4: up --reload",
        State.FIXED,
        (
            "tests/unit/cli/test_watched.py",
            "tests/system/test_up.py::test_up_reload_takes_in_what_changed_and_stays_with_the_old_code_when_it_is_broken",
        ),
        "by polling, twice a second, at most 5,000 .py files of the app's folder and below, imported or not",
    ),
    Finding(
        "ux 4: init",
        State.FIXED,
        (
            "tests/system/test_init.py::test_what_init_writes_runs_all_four_kinds_of_work",
            "tests/system/test_init.py::test_init_overwrites_nothing_and_then_writes_nothing",
        ),
        "",
    ),
    Finding(
        "ux 4: logs of tasks, services and streams",
        State.FIXED,
        (
            "tests/process/test_printed.py::test_what_work_prints_is_read_at_the_door_and_by_the_command",
            "tests/unit/runtime/test_printed.py",
            "tests/unit/runtime/worker/test_tee.py",
        ),
        "over HTTP and in the CLI; not over gRPC, and not what subprocesses and native libraries write",
    ),
    Finding(
        "reading 2 one key twice at once tries for ever",
        State.FIXED,
        (
            "tests/unit/doors/http/test_once.py::test_two_who_come_at_once_with_one_key_make_one_change",
            "tests/unit/doors/http/test_once.py::test_who_looked_for_the_note_too_early_gets_the_answer_all_the_same",
        ),
        "POST /v1/sources/KIND/sync; a deletion was answered 404, a backfill with no runs",
    ),
    Finding(
        "reading 2 a member is refused for who came after it, or for its machine's earlier life",
        State.FIXED,
        (
            "tests/unit/fleet/members/test_session.py::test_a_node_that_was_in_the_fleet_is_not_ended_because_of_one_that_came_later",
            "tests/unit/fleet/members/test_session.py::test_records_of_nodes_that_died_with_the_machine_only_make_a_node_wait",
        ),
        "exit code 2 is one that systemd does not restart; rota up was also restarted by hand in another namespace",
    ),
    Finding(
        "reading 2 the command line sends its token in the clear to any host",
        State.FIXED,
        ("tests/unit/cli/reach/test_contexts.py::test_a_token_does_not_pass_in_the_clear_to_another_machine",),
        "rota login --insecure or ROTA_INSECURE=true allows it",
    ),
    Finding(
        "reading 2 a ticket is spent although the machine cannot keep what it brings",
        State.FIXED,
        (
            "tests/system/test_tickets_cli.py::test_a_machine_that_cannot_keep_what_a_ticket_brings_does_not_spend_it",
            "tests/unit/fleet/access/test_tickets.py::test_what_it_opens_is_handed_out_although_it_cannot_be_cleared_away",
            "tests/unit/fleet/access/test_tickets.py::test_whether_it_was_spent_is_looked_up_if_the_store_does_not_say",
        ),
        "killed between the commit and the rename that follows it, a machine still needs another ticket",
    ),
    Finding(
        "reading 2 what a ticket's line says",
        State.FIXED,
        (
            "tests/unit/fleet/access/test_tickets.py::test_a_node_that_would_be_a_path_is_refused",
            "tests/system/test_tickets_cli.py::test_a_ticket_has_nothing_of_the_stores_password",
        ),
        "part of a password with an @ in it; a node's name that leads out of the folder",
    ),
    Finding(
        "reading 2 two logins at once lose one, or fail",
        State.FIXED,
        (
            "tests/unit/cli/reach/test_contexts.py::test_of_several_who_log_in_at_once_none_is_forgotten",
            "tests/unit/kit/test_files.py",
        ),
        "write_secret had one draft file for all writers",
    ),
    Finding(
        "reading 2 each call costs as much as there are tokens",
        State.FIXED,
        (
            "tests/unit/fleet/core/access/test_gate.py::test_who_comes_costs_no_more_where_there_are_thousands_of_tokens",
            "tests/unit/fleet/doors/test_tokens.py::test_a_record_that_an_older_rota_replaces_before_its_digest_is_noted_is_noted_all_the_same",
        ),
        (
            "with 10 000 tokens on a busy machine: 7 ms for each call, also of strangers, and 0.6 s of the event loop "
            "for each token that changes; now 0.01 ms and 0.05 ms"
        ),
    ),
    Finding(
        "reading 2 what an expired ticket opens stays sealed in the store until the next ticket is made",
        State.JUDGED,
        (),
        "sealed with a key that only the printed line has; docs/howto/run-on-several-machines.md says so",
    ),
)
