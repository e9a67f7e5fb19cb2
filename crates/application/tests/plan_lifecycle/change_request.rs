//! `ChangeRequestService`: the branch of an applied plan is pushed once, and its change request is opened once.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::plan_operations::{ApplyPlan, ExecutePlan, UsePlan};
use cleveragents_application::{
    ChangeRequestError, ChangeRequestService, FrontEnd, OperationContext, PublishedBranch,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _, PlanId};
use cleveragents_testkit::{ForgeApi, ForgeServer, TestDatabase};
use cleveragents_tools::ports::Approval;

use crate::MODEL;
use crate::support::{PlanEnvironment, User, git};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "change_request::gh_opens_a_pull_request_once_and_a_repetition_finds_it",
        gh_opens_a_pull_request_once_and_a_repetition_finds_it,
    ),
    (
        "change_request::without_gh_the_rest_api_of_github_is_called",
        without_gh_the_rest_api_of_github_is_called,
    ),
    (
        "change_request::other_hosts_are_called_as_forgejo",
        other_hosts_are_called_as_forgejo,
    ),
    (
        "change_request::a_branch_is_pushed_even_if_no_service_is_known",
        a_branch_is_pushed_even_if_no_service_is_known,
    ),
    (
        "change_request::a_repository_without_remote_is_refused_before_the_apply",
        a_repository_without_remote_is_refused_before_the_apply,
    ),
];

/// `gh pr list` and `gh pr create`. Like the real program, it refuses unknown flags and needs a login.
const GH: &str = r#"#!/bin/sh
echo "$*" >> "$GH_CONFIG_DIR/calls"
fail() { echo "$1" >&2; exit 1; }
[ "$1" = pr ] || fail "unknown command \"$1\" for \"gh\""
command=$2
shift 2
repo= head= base= title= file= json=
while [ $# -gt 0 ]; do
  case "$command $1" in
    'list --repo'|'create --repo') repo=$2;;
    'list --head'|'create --head') head=$2;;
    'list --state') [ "$2" = open ] || fail "invalid argument \"$2\" for \"-s, --state\" flag";;
    'list --json') [ "$2" = url ] || fail "Unknown JSON field: \"$2\""; json=1;;
    'list --limit') [ "$2" -gt 0 ] || fail "invalid value for --limit: $2";;
    'create --base') base=$2;;
    'create --title') title=$2;;
    'create --body-file') file=$2;;
    *) fail "unknown flag: $1";;
  esac
  shift 2
done
if [ -z "$GH_TOKEN" ]; then
  echo 'To get started with GitHub CLI, run:  gh auth login' >&2
  exit 4
fi
[ "$repo" = github.com/ada/shop ] || fail "Could not resolve to a Repository with the name '$repo'."
url=https://github.com/ada/shop/pull/7
open=$(cat "$GH_CONFIG_DIR/open" 2>&1)
case $command in
  list)
    [ -n "$json" ] || fail '--json is missing'
    if [ "$open" = "$head" ]; then echo "[{\"url\":\"$url\"}]"; else echo '[]'; fi;;
  create)
    [ -n "$title" ] && [ -n "$file" ] || fail 'must provide `--title` and `--body` when not running interactively'
    [ "$file" = - ] || fail "open $file: no such file or directory"
    [ "$open" != "$head" ] || fail "a pull request for branch \"$head\" into branch \"$base\" already exists"
    [ "$base" = main ] || fail "Base ref must be a branch"
    cat > "$GH_CONFIG_DIR/body"
    echo "$title" > "$GH_CONFIG_DIR/title"
    echo "$head" > "$GH_CONFIG_DIR/open"
    echo "$url";;
  *) fail "unknown command \"$command\" for \"gh pr\"";;
esac
"#;

/// An executed plan, in a repository with a bare remote.
struct Scene {
    environment: PlanEnvironment,
    plan: PlanId,
    remote: PathBuf,
    /// The only folder on the user's `PATH`.
    programs: PathBuf,
    variables: BTreeMap<String, String>,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// `url` is the address of the remote; git replaces it by the path of the bare repository.
    fn new(database: &TestDatabase, url: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let remote = folder.path().join("remote.git");
        let programs = folder.path().join("bin");
        for place in [&remote, &programs] {
            std::fs::create_dir(place).expect("a folder");
        }
        for name in ["git", "sh", "cat"] {
            let path = std::env::var_os("PATH").expect("a path");
            let mut places = std::env::split_paths(&path).map(|place| place.join(name));
            let place = places.find(|place| place.is_file()).expect(name);
            std::os::unix::fs::symlink(place, programs.join(name)).expect("a link");
        }
        git(&remote, &["init", "-q", "--bare", "-b", "main"]);
        let environment = PlanEnvironment::new(database, MODEL);
        let path = remote.display().to_string();
        let repository = &environment.repository;
        git(
            repository,
            &["remote", "add", "origin", url.unwrap_or(&path)],
        );
        if let Some(url) = url {
            git(
                repository,
                &["config", &format!("url.{path}.insteadOf"), url],
            );
        }
        git(repository, &["push", "-q", "origin", "main"]);
        let plan = create_executed_plan(&environment);
        let variables = BTreeMap::from([
            ("PATH".to_owned(), programs.display().to_string()),
            ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
        ]);
        Self {
            environment,
            plan,
            remote,
            programs,
            variables,
            _folder: folder,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Installs the fake `gh`. Returns the folder of its state.
    fn install_gh(&mut self) -> PathBuf {
        let program = self.programs.join("gh");
        std::fs::write(&program, GH).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("a mode");
        let state = self.programs.join("state");
        std::fs::create_dir(&state).expect("a folder");
        self.set("GH_CONFIG_DIR", &state.display().to_string());
        state
    }

    fn service(&self) -> ChangeRequestService {
        let variables = self.variables.clone();
        ChangeRequestService::new(
            Arc::clone(&self.environment.engine),
            self.environment.sandbox_service(),
            Arc::new(move |name: &str| variables.get(name).cloned()),
            &self.environment.repository,
        )
    }

    /// Applies the plan on the branch that the service chooses. Returns the branch.
    fn apply(&self) -> String {
        let target = self
            .service()
            .target(Some(&self.plan.to_string()), None)
            .expect("a target");
        assert!(!target.is_applied);
        let apply = ApplyPlan {
            reference: Some(self.plan.to_string()),
            yes: true,
            branch: Some(target.branch.clone()),
            ..ApplyPlan::default()
        };
        user(&self.environment).call(apply).expect("applied");
        target.branch
    }

    fn publish(&self) -> Result<PublishedBranch, ChangeRequestError> {
        let mut published = self.service().publish(self.plan, None, &|_| {})?;
        assert_eq!(published.len(), 1);
        Ok(published.remove(0))
    }
}

fn commit_of(place: &Path, branch: &str) -> String {
    git(place, &["rev-parse", &format!("refs/heads/{branch}")])
}

fn user(environment: &PlanEnvironment) -> OperationContext {
    let context = environment.application().for_caller(Caller::local("ada"));
    context.with_front_end(FrontEnd {
        approver: Arc::new(User::answering(Approval::Once)),
        ..FrontEnd::default()
    })
}

fn create_executed_plan(environment: &PlanEnvironment) -> PlanId {
    let plan = user(environment)
        .call(UsePlan {
            action: "local/fix".to_owned(),
            projects: vec!["local/shop".to_owned()],
            ..UsePlan::default()
        })
        .expect("a strategy");
    let execute = ExecutePlan {
        reference: Some(plan.plan_id.to_string()),
        ..ExecutePlan::default()
    };
    user(environment).call(execute).expect("executed");
    plan.plan_id
}

fn gh_opens_a_pull_request_once_and_a_repetition_finds_it() {
    for database in TestDatabase::each() {
        let mut scene = Scene::new(&database, Some("git@github.com:ada/shop.git"));
        let state = scene.install_gh();
        let repository = scene.environment.repository.clone();
        git(&repository, &["branch", "agents/fix-the-price"]);
        let head = git(&repository, &["rev-parse", "HEAD"]);
        let branch = scene.apply();
        assert_eq!(branch, "agents/fix-the-price-2", "the first name is taken");

        // Without a login, the branch is pushed, and the reason is reported.
        let published = scene.publish().expect("pushed");
        assert!(published.is_pushed);
        assert_eq!(published.url, None);
        let problem = published.problem.expect("a problem");
        assert!(problem.contains("gh auth login"), "{problem}");
        let page = published.page.expect("a page");
        assert_eq!(
            page,
            "https://github.com/ada/shop/compare/main...agents/fix-the-price-2?expand=1"
        );
        assert_eq!(
            commit_of(&scene.remote, &branch),
            commit_of(&repository, &branch)
        );

        scene.set("GH_TOKEN", "secret");
        let url = Some("https://github.com/ada/shop/pull/7".to_owned());
        let published = scene.publish().expect("opened");
        assert_eq!((published.url, published.problem), (url.clone(), None));
        assert!(published.is_created && !published.is_pushed);
        assert_eq!(published.base.as_deref(), Some("main"));
        let title = std::fs::read_to_string(state.join("title"));
        assert_eq!(title.expect("a title"), "Fix the price\n");
        let body = std::fs::read_to_string(state.join("body")).expect("a body");
        for part in [
            "Fix the price\n",
            "## Changes made\n\n- Write price.txt\n  The file is written.",
            "## Files\n\n- `shop/price.txt`\n",
            "## Checks\n\n- `",
            "## Cost\n\n$0.0000",
            &format!("Plan: {}", scene.plan),
        ] {
            assert!(body.contains(part), "{part:?} is missing in {body}");
        }

        let published = scene.publish().expect("found");
        assert_eq!(published.url, url);
        assert!(!published.is_created && !published.is_pushed);
        assert_eq!(published.commands, Vec::<String>::new());
        let calls = std::fs::read_to_string(state.join("calls")).expect("calls");
        let created = calls.lines().filter(|call| call.starts_with("pr create"));
        assert_eq!(created.count(), 1, "{calls}");
        let target = scene.service().target(None, None).expect("the same plan");
        assert!(target.is_applied && target.branch == branch);
        let plan = scene.environment.plans.get(scene.plan).expect("the plan");
        let report = plan.report.expect("a report");
        assert_eq!(report["change_request"].as_str(), url.as_deref());

        assert_eq!(git(&repository, &["rev-parse", "HEAD"]), head);
        assert_eq!(scene.environment.price(), "wrong\n");
        assert_eq!(git(&repository, &["status", "--porcelain"]), "");
    }
}

fn without_gh_the_rest_api_of_github_is_called() {
    let database = TestDatabase::sqlite();
    let forge = ForgeServer::start(ForgeApi::GitHub, "secret");
    let mut scene = Scene::new(&database, Some("https://github.com/ada/shop.git"));
    scene.set("GITHUB_API_URL", &forge.url());
    let branch = scene.apply();
    let published = scene.publish().expect("pushed");
    let problem = published.problem.expect("no token");
    assert!(problem.contains("GH_TOKEN"), "{problem}");
    assert!(forge.received().is_empty());

    scene.set("GITHUB_TOKEN", "wrong");
    let problem = scene.publish().expect("pushed").problem.expect("refused");
    assert!(
        problem.contains("401") && problem.contains("Bad credentials"),
        "{problem}"
    );

    scene.set("GITHUB_TOKEN", "secret");
    let published = scene.publish().expect("opened");
    assert!(published.is_created, "{published:?}");
    let pulls = forge.pulls();
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0]["head"]["ref"], branch);
    assert_eq!(pulls[0]["base"]["ref"], "main");
    assert_eq!(pulls[0]["title"], "Fix the price");
    let again = scene.publish().expect("found");
    assert_eq!(again.url, published.url);
    assert!(!again.is_created);
    assert_eq!(forge.pulls().len(), 1);
    // A closed pull request is not reopened; a new one is created.
    forge.close_all();
    assert!(scene.publish().expect("opened").is_created);
    assert_eq!(forge.pulls().len(), 2);
}

fn other_hosts_are_called_as_forgejo() {
    let database = TestDatabase::sqlite();
    let forge = ForgeServer::start(ForgeApi::Forgejo, "secret");
    let url = format!("{}/ada/shop.git", forge.url());
    let mut scene = Scene::new(&database, Some(&url));
    // The token of another service is not sent.
    scene.set("GITHUB_TOKEN", "secret");
    scene.apply();
    let problem = scene.publish().expect("pushed").problem.expect("no token");
    assert!(problem.contains("FORGEJO_TOKEN"), "{problem}");
    assert!(forge.received().is_empty());
    scene.set("GITEA_TOKEN", "secret");
    assert!(scene.publish().expect("opened").is_created);
    let again = scene.publish().expect("found");
    assert!(again.url.is_some() && !again.is_created);
    assert_eq!(forge.pulls().len(), 1);
}

fn a_branch_is_pushed_even_if_no_service_is_known() {
    let database = TestDatabase::sqlite();
    let scene = Scene::new(&database, None);
    let branch = scene.apply();
    let published = scene.publish().expect("pushed");
    assert!(published.is_pushed);
    assert_eq!((published.url, published.page), (None, None));
    let problem = published.problem.expect("a problem");
    assert!(problem.contains("not at a hosting service"), "{problem}");
    let expected = format!("git push --porcelain origin refs/heads/{branch}:refs/heads/{branch}");
    assert_eq!(published.commands, [expected]);
    // The remote has another commit under this name: nothing is overwritten.
    git(
        &scene.remote,
        &["update-ref", &format!("refs/heads/{branch}"), "main"],
    );
    git(
        &scene.environment.repository,
        &["push", "-q", "origin", "--delete", &branch],
    );
    let other = git(
        &scene.environment.repository,
        &["commit-tree", "main^{tree}", "-m", "other"],
    );
    let refspec = format!("{other}:refs/heads/{branch}");
    git(
        &scene.environment.repository,
        &["push", "-q", "origin", &refspec],
    );
    let refused = scene.publish().expect_err("not overwritten");
    assert_eq!(refused.code(), Code::GitFailed, "{refused}");
    assert!(refused.to_string().contains(&branch), "{refused}");
    assert_eq!(commit_of(&scene.remote, &branch), other);
}

fn a_repository_without_remote_is_refused_before_the_apply() {
    let database = TestDatabase::sqlite();
    let scene = Scene::new(&database, None);
    git(
        &scene.environment.repository,
        &["remote", "remove", "origin"],
    );
    let refused = scene.service().target(Some(&scene.plan.to_string()), None);
    let refused = refused.expect_err("no remote");
    assert!(
        refused.to_string().contains("no remote `origin`"),
        "{refused}"
    );
    let refused = scene.service().publish(scene.plan, None, &|_| {});
    assert_eq!(refused.expect_err("not applied").code(), Code::PlanNotReady);
}
