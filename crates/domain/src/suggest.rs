//! All operations that a hint may suggest, with the parameters they are suggested with.
//!
//! This is the complete list: a test of the command line renders each suggestion and parses it as a
//! command.

use crate::{ArgumentValue, Placeholder, Suggestion};

/// `name(parameters) = "operation" + flags;` defines a function of this name.
macro_rules! suggestions {
    ($($name:ident($($parameter:ident),*) = $operation:literal $(+ $flag:ident)*;)+) => {
        $(
            #[doc = concat!("`", $operation, "`", $(" with `", stringify!($flag), "`",)*)]
            pub fn $name($($parameter: impl Into<ArgumentValue>),*) -> Suggestion {
                Suggestion::new($operation)
                    $(.with(stringify!($parameter), $parameter))*
                    $(.with_flag(stringify!($flag)))*
            }
        )+

        /// All suggestions, with the names of parameters as placeholders.
        pub fn all() -> Vec<Suggestion> {
            vec![$($name($(Placeholder(stringify!($parameter))),*),)+]
        }
    };
}

suggestions! {
    action_archive(name) = "registry/action/archive";
    action_create_update(text) = "registry/action/create" + update;
    action_list() = "registry/action/list";
    action_show(name) = "registry/action/show";
    actor_add() = "registry/actor/add";
    actor_add_file(text) = "registry/actor/add";
    actor_context_export(name) = "actor/context/export";
    actor_context_list() = "actor/context/list";
    actor_context_remove(name) = "actor/context/remove";
    actor_list() = "registry/actor/list";
    actor_run(name, prompt) = "actor/run";
    actor_run_in_context(name, prompt, context) = "actor/run";
    actor_run_unsafe() = "actor/run" + allow_unsafe;
    actor_run_with_context(context) = "actor/run";
    actor_run_with_value(set) = "actor/run";
    actor_set_default(name) = "actor/set-default";
    actor_show() = "registry/actor/show";
    actor_update(text) = "registry/actor/update";
    automation_profile_add() = "registry/automation-profile/add";
    automation_profile_add_update() = "registry/automation-profile/add" + update;
    automation_profile_list() = "registry/automation-profile/list";
    cleanup_run() = "cleanup/run";
    config_set(key, value) = "config/set";
    config_unset(key) = "config/unset";
    db_check() = "db/check";
    db_upgrade() = "db/upgrade";
    diagnostics() = "diagnostics/run";
    diagnostics_repair() = "diagnostics" + repair;
    do_task(task) = "do";
    invariant_add_global(text) = "registry/invariant/add" + global;
    invariant_list() = "registry/invariant/list";
    invariant_remove(id) = "registry/invariant/remove";
    mcp_add_read(name, read) = "mcp/add" + update;
    mcp_add_update() = "mcp/add" + update;
    mcp_add_write(write) = "mcp/add";
    mcp_import(file) = "mcp/import";
    mcp_list() = "mcp/list";
    mcp_login(name) = "mcp/login";
    mcp_remove(name) = "mcp/remove";
    mcp_show_offline(name) = "mcp/show" + offline;
    mcp_test(name) = "mcp/test";
    model_list() = "registry/model/list";
    model_show(name) = "registry/model/show";
    item_list() = "item/list";
    item_show(item) = "item/show";
    permission_add(rule) = "permission/add";
    permission_list() = "permission/list";
    plan_apply(reference) = "plan/apply";
    plan_apply_empty(reference) = "plan/apply" + allow_empty;
    plan_approve(reference) = "plan/approve";
    plan_approve_with_answer(reference, answer) = "plan/approve";
    plan_cancel(reference) = "plan/cancel";
    plan_checkpoint_list(reference) = "plan/checkpoint/list";
    plan_diff(reference) = "plan/diff";
    plan_conflicts(reference) = "plan/conflicts";
    plan_errors(reference) = "plan/errors";
    plan_execute(reference) = "plan/execute";
    plan_execute_redo(reference) = "plan/execute" + redo;
    plan_execute_skip(reference) = "plan/execute" + skip;
    plan_help() = "plan/help";
    plan_list() = "plan/list";
    plan_log(reference) = "plan/log";
    plan_prompt(reference, guidance) = "plan/prompt";
    plan_redo(reference) = "plan/redo";
    plan_reject(reference) = "plan/reject";
    plan_resolve(reference, path, side) = "plan/resolve";
    plan_resolve_of_child(reference, path, side, child) = "plan/resolve";
    plan_revert(reference) = "plan/revert";
    plan_rollback(reference, checkpoint) = "plan/rollback" + yes;
    plan_show_as(reference, document) = "plan/show";
    plan_skip() = "plan/execute" + skip;
    plan_status(reference) = "plan/status";
    plan_tree(reference) = "plan/tree";
    plan_use(action, projects) = "plan/use";
    plan_use_with_argument(arguments) = "plan/use";
    plan_wait(reference) = "plan/wait";
    pool_add_update() = "pool/add" + update;
    pool_list() = "pool/list";
    pool_resume(name) = "pool/resume";
    pool_status() = "pool/status";
    project_create_help() = "project/create/help";
    project_link_resource(reference, resource) = "registry/project/link-resource";
    project_link_resource_as(alias) = "registry/project/link-resource";
    project_list() = "registry/project/list";
    project_show(reference) = "registry/project/show";
    project_unlink_resource(reference, resource) = "registry/project/unlink-resource";
    resource_add_help() = "resource/add/help";
    resource_add_update(type_name, name) = "resource/add" + update;
    resource_link_child() = "registry/resource/link-child";
    resource_list() = "registry/resource/list";
    resource_remove(reference) = "registry/resource/remove";
    resource_show(reference) = "registry/resource/show";
    resource_tree(reference) = "registry/resource/tree";
    resource_type_add_update() = "resource/type/add" + update;
    resource_type_list() = "registry/resource-type/list";
    resource_type_show(name) = "registry/resource-type/show";
    resource_unlink_child(parent, child) = "registry/resource/unlink-child";
    run_cancel(run) = "run/cancel";
    run_list() = "run/list";
    run_resume(run) = "run/resume";
    run_resume_with_answer(run, answer) = "run/resume";
    run_show(run) = "run/show";
    safety_list() = "safety/list";
    sandbox() = "sandbox";
    sandbox_create(name, path) = "sandbox/create";
    sandbox_diff(reference) = "sandbox/diff";
    sandbox_discard(reference) = "sandbox/discard";
    sandbox_exec(reference, command) = "sandbox/exec";
    sandbox_list_all() = "sandbox/list" + all;
    sandbox_query() = "sandbox/query";
    sandbox_rollback(reference) = "sandbox/rollback";
    sandbox_rollback_to(reference, to) = "sandbox/rollback";
    sandbox_show(reference) = "sandbox/show";
    schema(of) = "schema";
    session_append_with_metadata(metadata) = "session/append";
    session_export() = "session/export";
    session_import_unverified() = "session/import" + unverified;
    session_list() = "session/list";
    session_messages(reference) = "session/messages";
    session_search(query) = "session/search";
    session_tell_to(actor) = "session/tell";
    skill_add_update() = "skill/add" + update;
    skill_list() = "registry/skill/list";
    skill_tools(name) = "registry/skill/tools";
    token_create() = "token/create";
    token_create_for(grant) = "token/create";
    token_create_until(expires) = "token/create";
    token_list() = "token/list";
    token_revoke(token) = "token/revoke";
    tool_add_replacing() = "registry/tool/add" + update;
    tool_add_update(text) = "registry/tool/add" + update;
    tool_calls() = "tool/calls";
    tool_list() = "registry/tool/list";
    tool_remove(name) = "registry/tool/remove";
    validation_add_update() = "registry/validation/add" + update;
    validation_attachments() = "registry/validation/attachments";
    validation_attachments_of(validation) = "registry/validation/attachments";
    validation_detach(attachment) = "registry/validation/detach";
    validation_list() = "registry/validation/list";
    validation_show(name) = "registry/validation/show";
}

#[cfg(test)]
mod tests {
    use super::all;
    use std::collections::HashSet;

    #[test]
    fn no_suggestion_is_declared_twice() {
        let all = all();
        let distinct: HashSet<String> = all.iter().map(crate::Suggestion::neutral).collect();
        assert_eq!(distinct.len(), all.len());
    }
}
