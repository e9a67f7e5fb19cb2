//! Tests of precedence and provenance.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _};
use serde_json::json;

use crate::config::{ConfigLevel, Configuration, Environment, Flags, Home, Source, Value, keys};
use crate::output::Format;

/// A home folder and a project with configuration files, and environment variables.
struct World {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl World {
    fn new(global: &str, project: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        for (place, text) in [("home", global), ("project/.cleveragents", project)] {
            let place = folder.path().join(place);
            fs::create_dir_all(&place).expect("folder");
            fs::write(place.join("config.toml"), text).expect("file");
        }
        Self {
            folder,
            variables: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn load(&self, flags: Flags) -> Result<Configuration, crate::config::Error> {
        let home = self.path("home");
        let mut variables = self.variables.clone();
        variables.push(("CLEVERAGENTS_HOME", home.to_str().expect("text")));
        let environment = Environment::from_pairs(self.path("project"), &variables);
        Configuration::load(&environment, &Home::find(&environment)?, flags)
    }
}

#[test]
fn each_level_overrides_the_levels_below() {
    let world = World::new("core.format = \"table\"", "\ncore.format = \"plain\"")
        .with("CLEVERAGENTS_FORMAT", "yaml");
    let flags = Flags::none()
        .with(&keys::FORMAT, "--format", Some("json"))
        .expect("legal");
    let resolved = world
        .load(flags)
        .expect("legal")
        .resolve("core.format")
        .expect("known");
    assert_eq!(resolved.value, Some(Value::Text("json".to_owned())));
    assert_eq!(
        (resolved.level, &resolved.source),
        (ConfigLevel::Flag, &Source::Flag("--format"))
    );
    let chain: Vec<_> = resolved
        .chain
        .iter()
        .map(|step| {
            (
                step.level.as_str(),
                step.value.as_ref().map(ToString::to_string),
            )
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        chain,
        [
            ("flag", text("json")),
            ("environment", text("yaml")),
            ("project", text("plain")),
            ("global", text("table")),
            ("default", None),
        ]
    );
    let sources: Vec<_> = resolved
        .chain
        .iter()
        .map(|step| step.source.clone())
        .collect();
    let project = world.path("project/.cleveragents/config.toml");
    assert_eq!(sources[1], Some(Source::Variable("CLEVERAGENTS_FORMAT")));
    assert_eq!(
        sources[2],
        Some(Source::File {
            path: project,
            line: 2
        })
    );
    assert_eq!(sources[4], None);
}

#[test]
fn the_highest_level_with_a_value_wins() {
    let winner = |global, project, variable| {
        let world = World::new(global, project).with("CLEVERAGENTS_FORMAT", variable);
        world
            .load(Flags::none())
            .expect("legal")
            .resolve("core.format")
            .expect("known")
            .level
    };
    let (table, plain) = ("core.format = \"table\"", "core.format = \"plain\"");
    assert_eq!(winner(table, plain, "json"), ConfigLevel::Environment);
    assert_eq!(winner(table, plain, ""), ConfigLevel::Project);
    assert_eq!(winner(table, "", ""), ConfigLevel::Global);
    assert_eq!(winner("", "", ""), ConfigLevel::Default);
}

#[test]
fn the_defaults_apply_without_settings() {
    let world = World::new("", "");
    let configuration = world.load(Flags::none()).expect("legal");
    let settings = configuration.settings().expect("legal");
    assert_eq!(settings.format(), None);
    let database = world.path("home/cleveragents.db");
    assert_eq!(
        settings.database_url(),
        format!("sqlite://{}", database.display())
    );
    assert_eq!(settings.automation_profile(), "supervised");
    assert_eq!(
        settings.max_message_bytes(),
        cleveragents_domain::DEFAULT_MAX_CONTENT_BYTES
    );
    assert_eq!(settings.busy_timeout(), Duration::from_secs(30));
    assert_eq!((settings.connections(), settings.events_days()), (8, 90));
    // The defaults of the keys equal those of the models crate.
    assert_eq!(
        settings.model_limits(),
        cleveragents_models::Limits::default()
    );
    let retries = cleveragents_models::RetryPolicy::default().retries;
    assert_eq!(settings.model_retries(), retries);
    assert!(settings.model_default().is_none() && settings.model_fallback().is_empty());
    assert_eq!(configuration.all().expect("legal").len(), super::KEYS.len());
}

#[test]
fn settings_come_from_every_level() {
    let world = World::new(
        "[store]\nconnections = 3\n[cleanup]\nevents-days = 5\n",
        "[session]\nmax-message-bytes = 10\n",
    )
    .with("CLEVERAGENTS_STORE_BUSY_TIMEOUT_SECONDS", "2")
    .with("CLEVERAGENTS_DATABASE_URL", "sqlite::memory:")
    .with("CLEVERAGENTS_AUTOMATION_PROFILE", "team/careful")
    .with("CLEVERAGENTS_MODEL_FALLBACK", "a/b, c/d/e");
    let flags = Flags::none()
        .with(&keys::FORMAT, "--format", Some("json"))
        .expect("legal");
    let settings = world.load(flags).expect("legal").settings().expect("legal");
    assert_eq!(settings.format(), Some(Format::Json));
    assert_eq!(settings.database_url(), "sqlite::memory:");
    assert_eq!(settings.automation_profile(), "team/careful");
    assert_eq!(settings.max_message_bytes(), 10);
    assert_eq!(settings.busy_timeout(), Duration::from_secs(2));
    assert_eq!((settings.connections(), settings.events_days()), (3, 5));
    let names: Vec<String> = settings
        .model_fallback()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["a/b", "c/d/e"]);
}

#[test]
fn an_error_names_the_invalid_variable() {
    let world = World::new("", "").with("CLEVERAGENTS_STORE_CONNECTIONS", "many");
    let error = world
        .load(Flags::none())
        .expect("files")
        .settings()
        .expect_err("illegal");
    assert_eq!(error.code(), Code::InvalidConfigValue);
    insta::assert_snapshot!(error, @"`store.connections` cannot be `many`: expected a whole number from 1 to 64 (set by CLEVERAGENTS_STORE_CONNECTIONS)");
    insta::assert_snapshot!(error.hint().expect("hint").neutral(), @"set CLEVERAGENTS_STORE_CONNECTIONS to a whole number from 1 to 64, or unset it");
}

#[test]
fn an_error_names_the_invalid_flag() {
    let error = Flags::none()
        .with(&keys::FORMAT, "--format", Some("fancy"))
        .expect_err("illegal");
    insta::assert_snapshot!(error, @"`core.format` cannot be `fancy`: expected one of rich, color, table, plain, json, yaml (set by --format)");
}

#[test]
fn a_cloned_repository_cannot_redirect_the_database() {
    let world = World::new("", "[core]\ndatabase-url = \"postgres://evil/db\"\n");
    let error = world.load(Flags::none()).expect_err("refused");
    assert_eq!(error.code(), Code::NotProjectScoped);
    assert!(error.to_string().contains("config.toml:2"), "{error}");
}

#[test]
fn json_output_has_the_chain_and_no_password() {
    let world = World::new("core.database-url = \"postgres://me:old@db/x\"", "")
        .with("CLEVERAGENTS_DATABASE_URL", "postgres://me:new@db/x");
    let configuration = world.load(Flags::none()).expect("legal");
    let value = configuration
        .resolve("core.database-url")
        .expect("known")
        .to_json();
    assert_eq!(value["value"], "postgres://me:***@db/x");
    assert_eq!(value["level"], "environment");
    assert_eq!(value["source"], "CLEVERAGENTS_DATABASE_URL");
    assert_eq!(
        value["chain"][0],
        json!({"level": "flag", "value": null, "source": null})
    );
    assert_eq!(value["chain"][3]["value"], "postgres://me:***@db/x");
    let number = configuration
        .resolve("store.connections")
        .expect("known")
        .to_json();
    assert_eq!(number["value"], 8);
}

#[test]
fn an_error_suggests_the_key_nearest_to_an_unknown_one() {
    let configuration = World::new("", "").load(Flags::none()).expect("legal");
    let error = configuration.resolve("core.fromat").expect_err("unknown");
    assert_eq!(error.code(), Code::UnknownConfigKey);
    insta::assert_snapshot!(error.hint().expect("hint").neutral(), @"did you mean `core.format`? run `agents config list` to see every key");
}

#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new("", "");
    let mut configuration = world.load(Flags::none()).expect("legal");
    configuration.environment.set_raw(
        "CLEVERAGENTS_DATABASE_URL",
        std::ffi::OsStr::from_bytes(b"sqlite:///\xff"),
    );
    assert_eq!(
        configuration.settings().expect_err("bytes").code(),
        Code::InvalidConfigValue
    );
}
