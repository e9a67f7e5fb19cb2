//! The error vocabulary that all crates share: stable codes, their exit codes, and the [`Diagnose`]
//! trait that error types implement so that every front end can show them alike.
//!
//! A code is stable: it never changes its meaning and has a page in `docs/errors/`.

use serde_json::Value;

use crate::Hint;

/// Meaning of a failure to the caller; decides the exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The operation failed or was refused.
    Failed,
    /// The request itself was invalid.
    Usage,
    /// A referenced entity does not exist.
    NotFound,
    /// The request conflicts with the current state or with another owner.
    Conflict,
    /// A user has to decide and none is available.
    HumanNeeded,
}

impl Kind {
    /// Process exit code of this kind.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::HumanNeeded => 5,
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $text:literal, $kind:ident, $title:literal;)+) => {
        /// A stable error code. This is the complete list; each has a page in `docs/errors/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Printed code, such as `CA-0301`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The code that is printed as `text`.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Meaning of the code to the caller.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }

            /// Title of the code's page.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

codes! {
    Internal = "CA-0100", Failed, "an internal error occurred";
    Usage = "CA-0101", Usage, "the command line is invalid";
    InvalidName = "CA-0102", Usage, "a name is not well formed";
    InvalidId = "CA-0103", Usage, "an id is not well formed";
    HomeUnusable = "CA-0104", Failed, "the home folder cannot be used";
    FileAccess = "CA-0105", Failed, "a file cannot be read or written";
    ConfirmationNeeded = "CA-0106", HumanNeeded, "a user has to confirm this";
    InvalidUtf8 = "CA-0107", Usage, "the input is not valid UTF-8";
    OutputExists = "CA-0108", Conflict, "the output file exists already";
    UnknownConfigKey = "CA-0110", Usage, "the configuration key does not exist";
    InvalidConfigValue = "CA-0111", Usage, "the configuration value is not allowed";
    MalformedConfig = "CA-0112", Failed, "the configuration file cannot be read";
    NotProjectScoped = "CA-0113", Usage, "the key cannot be set for a project";
    InvalidDatabaseUrl = "CA-0201", Usage, "the database URL is invalid";
    DatabaseUnavailable = "CA-0202", Failed, "the database cannot be opened";
    DatabaseBusy = "CA-0203", Failed, "the database stayed busy";
    DatabaseDamaged = "CA-0204", Failed, "the database file is damaged";
    DatabaseNewer = "CA-0205", Failed, "the database is newer than the program";
    DiskFull = "CA-0206", Failed, "the disk is full";
    DatabaseReadOnly = "CA-0207", Failed, "the database cannot be written";
    SqliteTooOld = "CA-0208", Failed, "the SQLite library is too old";
    StatementFailed = "CA-0209", Failed, "a database statement failed";
    VersionConflict = "CA-0210", Conflict, "another process changed it first";
    ConstraintViolated = "CA-0211", Failed, "the database refused a row";
    MigrationFailed = "CA-0212", Failed, "a migration failed";
    BlobMissing = "CA-0213", Failed, "stored content is missing or altered";
    StoredValueInvalid = "CA-0214", Failed, "a stored value cannot be read";
    SessionNotFound = "CA-0301", NotFound, "the session does not exist";
    AmbiguousSession = "CA-0302", Usage, "several sessions match";
    InvalidRole = "CA-0303", Usage, "the role does not exist";
    EmptyContent = "CA-0304", Usage, "the message is empty";
    ContentTooLarge = "CA-0305", Usage, "the message is too large";
    InvalidMetadata = "CA-0306", Usage, "the metadata is not a JSON object";
    UnstorableContent = "CA-0307", Usage, "the text holds a character that cannot be stored";
    InvalidJsonLine = "CA-0308", Usage, "a line of the JSONL input is invalid";
    ImportAltered = "CA-0309", Failed, "the export file was altered";
    ImportNewer = "CA-0310", Failed, "the export file is newer than the program";
    ImportMalformed = "CA-0311", Failed, "the file is not a session export";
    MessageNotFound = "CA-0312", NotFound, "the message does not exist";
    InvalidSessionName = "CA-0313", Usage, "the session name is not allowed";
    InvalidSearchQuery = "CA-0314", Usage, "the search query is empty";
    NoActiveChangeset = "CA-0401", Conflict, "no changeset is open";
    ChangesetClosed = "CA-0402", Conflict, "the changeset is closed";
    ChangesetNotFound = "CA-0403", NotFound, "the changeset does not exist";
    PlanNotFound = "CA-0404", NotFound, "the plan does not exist";
    InvalidChange = "CA-0405", Usage, "the change is not well formed";
    LeaseHeld = "CA-0411", Conflict, "another process holds the lease";
    LeaseLost = "CA-0412", Conflict, "the lease was lost";
    InvalidTtl = "CA-0413", Usage, "the lease duration is out of range";
    ChecksFailed = "CA-0501", Failed, "a check found an error";
    ResourceNotFound = "CA-0601", NotFound, "the resource does not exist";
    AmbiguousResource = "CA-0602", Usage, "several resources match";
    ResourceExists = "CA-0603", Conflict, "a resource of this name exists already";
    ResourceTypeNotFound = "CA-0604", NotFound, "the resource type does not exist";
    ResourceTypeExists = "CA-0605", Conflict, "a resource type of this name exists already";
    MalformedResourceType = "CA-0606", Usage, "the resource type file cannot be read";
    InvalidResourceType = "CA-0607", Usage, "the resource type definition is invalid";
    ResourceTypeInUse = "CA-0608", Conflict, "the resource type is still in use";
    BuiltInResourceType = "CA-0609", Conflict, "a built-in resource type cannot be changed";
    ResourceNotAddable = "CA-0610", Usage, "resources of this type cannot be registered by hand";
    InvalidResourceArgument = "CA-0611", Usage, "an argument of the resource is invalid";
    LocationNotFound = "CA-0612", NotFound, "the location of the resource does not exist";
    UnsuitableLocation = "CA-0613", Usage, "the location does not suit the resource type";
    ResourceInUse = "CA-0614", Conflict, "the resource is still in use";
    LinkNotAllowed = "CA-0615", Usage, "the types do not allow this link";
    LinkCreatesCycle = "CA-0616", Conflict, "the link would create a cycle";
    LinkNotFound = "CA-0617", NotFound, "the link does not exist";
    DiscoveredLink = "CA-0618", Conflict, "a discovered link cannot be removed by hand";
    LinkExists = "CA-0619", Conflict, "the link exists already";
    NoSandboxBoundary = "CA-0620", Failed, "the resource cannot be isolated in a sandbox";
    GitUnavailable = "CA-0621", Failed, "git cannot be run";
    ProjectNotFound = "CA-0631", NotFound, "the project does not exist";
    AmbiguousProject = "CA-0632", Usage, "several projects match";
    ProjectExists = "CA-0633", Conflict, "a project of this name exists already";
    AliasTaken = "CA-0634", Conflict, "the alias is taken in this project";
    ResourceAlreadyLinked = "CA-0635", Conflict, "the project links this resource already";
    ResourceNotLinked = "CA-0636", NotFound, "the project does not link this resource";
    InvalidProject = "CA-0637", Usage, "a part of the project is not allowed";
    SandboxNotFound = "CA-0640", NotFound, "the sandbox does not exist";
    SandboxExists = "CA-0641", Conflict, "a sandbox of this name exists";
    InvalidSandboxName = "CA-0642", Usage, "the sandbox name is not allowed";
    SandboxNotReady = "CA-0643", Conflict, "the sandbox is in the wrong state for this";
    SandboxDamaged = "CA-0644", Failed, "the sandbox is damaged";
    ApplyConflict = "CA-0645", Conflict, "the real resources changed in the same places";
    CannotSandbox = "CA-0646", Failed, "the resource cannot be sandboxed";
    CannotApply = "CA-0647", Failed, "a change cannot be applied";
    CheckpointNotFound = "CA-0648", NotFound, "the checkpoint does not exist";
    NothingToRedo = "CA-0649", Conflict, "there is nothing to redo";
    GitFailed = "CA-0650", Failed, "the git program failed";
    GitUnusable = "CA-0651", Failed, "the git program is missing or too old";
    ContentLost = "CA-0652", Failed, "earlier content is lost";
    SandboxElsewhere = "CA-0653", Failed, "the sandbox is on another machine";
    RepositoryBusy = "CA-0654", Conflict, "another git command is using the repository";
    ApplyRolledBack = "CA-0655", Failed, "an apply failed and was rolled back";
    ApplyStuck = "CA-0656", Failed, "an apply could be neither finished nor rolled back";
    ApplyRaced = "CA-0657", Conflict, "a resource changed while it was being applied";
    ResourceDatabase = "CA-0658", Failed, "a database resource cannot be read or written";
    SqlFailed = "CA-0659", Failed, "the database server refused a statement of the sandbox";
    SqlNotAdmitted = "CA-0660", Failed, "a statement cannot be part of the sandbox's transaction";
    CaptureInterrupted = "CA-0661", Failed, "recording the changes of a sandbox was interrupted";
    NoChangeRequest = "CA-0662", Failed, "a branch was pushed, but no change request was opened";
    ProgramNotFound = "CA-0701", NotFound, "the program does not exist";
    CommandFolder = "CA-0702", NotFound, "a folder of the command cannot be used";
    ConfinementUnavailable = "CA-0703", Failed, "the command cannot be confined here";
    CommandNotStarted = "CA-0704", Failed, "the command cannot be started";
    SupervisorLost = "CA-0705", Failed, "the supervisor of a command was lost";
    InvalidPolicy = "CA-0706", Usage, "the confinement policy of a command is invalid";
    TooManyBackgroundCommands = "CA-0707", Conflict, "the maximum number of background commands runs";
    ModelAnswerEmpty = "CA-0795", Failed, "the model returned an empty answer";
    ModelNoRoomForAnswer = "CA-0796", Failed, "the output limit was used up before the answer";
    ModelKeyRefused = "CA-0801", Failed, "the provider rejected the key";
    ModelNotFound = "CA-0802", NotFound, "the provider does not know the model";
    ModelRateLimited = "CA-0803", Failed, "the provider limits the request rate";
    ModelQuotaExceeded = "CA-0804", Failed, "the quota of the provider account is used up";
    ModelOverloaded = "CA-0805", Failed, "the provider is overloaded or broken";
    ModelUnreachable = "CA-0806", Failed, "the provider cannot be reached";
    ModelRequestRefused = "CA-0807", Failed, "the provider refused the request";
    ContextTooLong = "CA-0808", Failed, "the conversation is too long for the model";
    ContentFiltered = "CA-0809", Failed, "the provider filtered the answer";
    ModelTimeout = "CA-0810", Failed, "the model timed out";
    ModelInterrupted = "CA-0811", Failed, "the answer of the model was interrupted";
    ModelCancelled = "CA-0812", Failed, "the model call was cancelled";
    ModelProtocol = "CA-0813", Failed, "the provider sent an invalid response";
    ModelKeyMissing = "CA-0814", Failed, "there is no key for the provider";
    UnknownProvider = "CA-0815", NotFound, "the provider does not exist";
    InvalidModelName = "CA-0816", Usage, "the model name is not well formed";
    InvalidBaseUrl = "CA-0817", Usage, "the URL of a provider cannot be used";
    MalformedModelFile = "CA-0818", Usage, "a file of models or answers is invalid";
    NoScriptedAnswer = "CA-0819", Failed, "the script has no answer for this";
    NotRecorded = "CA-0820", Failed, "the recording does not contain this request";
    ModelNotCapable = "CA-0821", Failed, "no model of the fallback chain supports the request";
    KeyringUnavailable = "CA-0822", Failed, "the keyring cannot be used";
    NoModel = "CA-0823", Usage, "no model is set";
    ProjectInUse = "CA-0870", Conflict, "unfinished plans use the project";
    ToolNotFound = "CA-0901", NotFound, "the tool does not exist";
    ToolExists = "CA-0902", Conflict, "a tool of this name exists already";
    MalformedTool = "CA-0903", Usage, "the tool file cannot be read";
    InvalidTool = "CA-0904", Usage, "the tool definition is invalid";
    BuiltInTool = "CA-0905", Conflict, "a built-in tool cannot be changed";
    InvalidRule = "CA-0906", Usage, "the permission rule is not well formed";
    ToolRefused = "CA-0907", Failed, "the tool call was refused";
    ApprovalNeeded = "CA-0908", HumanNeeded, "a user has to approve the tool call";
    ToolFailed = "CA-0909", Failed, "the tool failed";
    BudgetExceeded = "CA-0910", Failed, "the budget is exceeded";
    TurnStopped = "CA-0911", Failed, "the turn was stopped";
    TurnUnfinished = "CA-0912", Failed, "the model did not finish the turn";
    NothingToResume = "CA-0913", NotFound, "no turn was interrupted";
    RuleNotFound = "CA-0914", NotFound, "the permission rule does not exist";
    ToolInUse = "CA-0915", Conflict, "unfinished plans use the tool";
    MalformedSafety = "CA-0920", Usage, "the safety file cannot be read";
    InvalidSafety = "CA-0921", Usage, "the safety profile definition is invalid";
    SafetyNotFound = "CA-0922", NotFound, "the safety profile does not exist";
    InvocationNotFound = "CA-0923", NotFound, "the tool call does not exist";
    ActorNotFound = "CA-1001", NotFound, "the actor does not exist";
    ActorExists = "CA-1002", Conflict, "an actor of this name exists already";
    MalformedActor = "CA-1003", Usage, "the actor file cannot be read";
    InvalidActor = "CA-1004", Usage, "the actor definition is invalid";
    BuiltInActor = "CA-1005", Conflict, "a built-in actor cannot be changed";
    ActorInUse = "CA-1006", Conflict, "the actor is still in use";
    UnsafeActor = "CA-1007", Failed, "the actor is unsafe and was not allowed";
    RoleMismatch = "CA-1008", Usage, "the actor cannot have this role";
    RunNotFound = "CA-1021", NotFound, "the run does not exist";
    RunFailed = "CA-1022", Failed, "a node of the run failed";
    RunLimit = "CA-1023", Failed, "the run reached a limit";
    RunCancelled = "CA-1024", Failed, "the run was stopped";
    RunOver = "CA-1025", Conflict, "the run has finished";
    RunBusy = "CA-1026", Conflict, "another process is working on the run";
    RunWaiting = "CA-1027", HumanNeeded, "the run waits for the user";
    AnswerMismatch = "CA-1028", Failed, "the answer does not match the response format";
    ContextNotFound = "CA-1029", NotFound, "the context does not exist";
    ContextExists = "CA-1030", Conflict, "a context of this name exists already";
    MalformedContext = "CA-1031", Usage, "the context file cannot be read";
    ReplayDiffers = "CA-1032", Failed, "the replay produced a different result";
    McpServerNotFound = "CA-1041", NotFound, "the MCP server does not exist";
    McpServerExists = "CA-1042", Conflict, "an MCP server of this name exists already";
    MalformedMcp = "CA-1043", Usage, "the MCP server file cannot be read";
    InvalidMcp = "CA-1044", Usage, "the MCP server definition is invalid";
    McpUnreachable = "CA-1045", Failed, "the MCP server cannot be reached";
    McpProtocol = "CA-1046", Failed, "the MCP server violates the protocol";
    McpTimeout = "CA-1047", Failed, "the MCP server timed out";
    McpAuthorization = "CA-1048", HumanNeeded, "the MCP server requires a login";
    McpServerInUse = "CA-1049", Conflict, "unfinished plans use the MCP server";
    SkillNotFound = "CA-1061", NotFound, "the skill does not exist";
    SkillExists = "CA-1062", Conflict, "a skill of this name exists already";
    MalformedSkill = "CA-1063", Usage, "the skill cannot be read";
    InvalidSkill = "CA-1064", Usage, "the skill definition is invalid";
    SkillInUse = "CA-1065", Conflict, "the skill is still in use";
    ActionNotFound = "CA-1101", NotFound, "the action does not exist";
    ActionExists = "CA-1102", Conflict, "an action of this name exists already";
    MalformedAction = "CA-1103", Usage, "the action file cannot be read";
    InvalidAction = "CA-1104", Usage, "the action definition is invalid";
    ActionArchived = "CA-1105", Conflict, "the action is archived";
    InvalidActionArgument = "CA-1106", Usage, "an argument of the action is missing or invalid";
    ProfileNotFound = "CA-1111", NotFound, "the automation profile does not exist";
    ProfileExists = "CA-1112", Conflict, "an automation profile of this name exists already";
    MalformedProfile = "CA-1113", Usage, "the automation profile file cannot be read";
    InvalidProfile = "CA-1114", Usage, "the automation profile definition is invalid";
    BuiltInProfile = "CA-1115", Conflict, "a built-in automation profile cannot be changed";
    ProfileInUse = "CA-1116", Conflict, "the automation profile is still in use";
    InvariantNotFound = "CA-1121", NotFound, "the invariant does not exist";
    InvalidInvariant = "CA-1122", Usage, "the invariant is not well formed";
    InvariantExists = "CA-1123", Conflict, "the invariant exists already";
    InvariantViolated = "CA-1124", Failed, "an invariant is violated";
    ValidationNotFound = "CA-1131", NotFound, "the validation does not exist";
    MalformedValidation = "CA-1132", Usage, "the validation file cannot be read";
    InvalidValidation = "CA-1133", Usage, "the validation definition is invalid";
    NotAValidation = "CA-1134", Usage, "the tool is not a validation";
    AttachmentNotFound = "CA-1135", NotFound, "the attachment does not exist";
    AttachmentExists = "CA-1136", Conflict, "the validation is attached already";
    ValidationInUse = "CA-1137", Conflict, "the validation is still attached";
    AmbiguousPlan = "CA-1141", Usage, "several plans match";
    PlanNotReady = "CA-1142", Conflict, "the plan is in the wrong state for this";
    PlanBusy = "CA-1143", Conflict, "another process is working on the plan";
    PlanWaiting = "CA-1144", HumanNeeded, "the plan waits for the user";
    PlanFailed = "CA-1145", Failed, "the plan failed";
    PreflightFailed = "CA-1146", Failed, "the plan cannot start";
    PlanConstrained = "CA-1147", Failed, "failed validations prevent applying";
    NothingToApply = "CA-1148", Failed, "the plan changed nothing";
    NoPlan = "CA-1149", NotFound, "no plan qualifies";
    DecisionNotFound = "CA-1150", NotFound, "the decision does not exist";
    ReversionLimit = "CA-1151", Conflict, "the plan was re-planned too many times";
    PlanCancelled = "CA-1152", Failed, "the plan was stopped";
    InvalidStrategy = "CA-1153", Usage, "the strategy cannot be read";
    PlanRollback = "CA-1154", Conflict, "the plan cannot be rolled back";
    ProjectEmpty = "CA-1155", Usage, "the project has no resources";
    StepOutcomeUnknown = "CA-1156", HumanNeeded, "a step was interrupted and its outcome is unknown";
    ConflictNotFound = "CA-1157", NotFound, "the plan has no conflict at this path";
    FilterTooLong = "CA-1160", Usage, "a filter is too long";
    Unauthenticated = "CA-1201", Failed, "the request has no valid token";
    Forbidden = "CA-1202", Failed, "the role does not permit this";
    TokenNotFound = "CA-1203", NotFound, "the token does not exist";
    TokenExists = "CA-1204", Conflict, "a token of this name exists already";
    InvalidGrant = "CA-1205", Usage, "a role, a namespace or a scope is not well formed";
    AuditBroken = "CA-1206", Failed, "the audit log was altered";
    ServerUnreachable = "CA-1207", Failed, "the server cannot be reached";
    ServerProtocol = "CA-1208", Failed, "the response of the server cannot be read";
    NotConnected = "CA-1209", Conflict, "no server is configured";
    LocalOnly = "CA-1210", Usage, "this is available on the local machine only";
    TooManyRequests = "CA-1211", Failed, "too many requests";
    RequestTooLarge = "CA-1212", Usage, "the request is too large";
    MalformedRequest = "CA-1213", Usage, "the request cannot be read";
    RequestInterrupted = "CA-1214", Conflict, "the request with this key was interrupted";
    RequestKeyReused = "CA-1215", Conflict, "the idempotency key was used for another request";
    RequestKeyPending = "CA-1216", Conflict, "the request with this key is still being processed";
    TaskNotFound = "CA-1217", NotFound, "the task does not exist";
    TaskOver = "CA-1218", Conflict, "the task has finished";
    ServerBusy = "CA-1219", Failed, "the server is overloaded";
    ServerEnding = "CA-1220", Failed, "the server is stopping";
    AddressRefused = "CA-1221", Usage, "calls to this address are not allowed";
    CannotListen = "CA-1222", Failed, "the server cannot listen";
    RemoteAgent = "CA-1223", Failed, "the remote agent failed";
    UnknownOperation = "CA-1224", NotFound, "the operation does not exist";
    WorkItemNotFound = "CA-1301", NotFound, "the work item does not exist";
    InvalidWorkItem = "CA-1302", Usage, "a value of the work item is not allowed";
    WorkItemTransition = "CA-1303", Conflict, "the work item cannot enter this state";
    DependencyCycle = "CA-1304", Conflict, "the dependency would form a cycle";
    AmbiguousWorkItem = "CA-1305", Usage, "several work items match";
    PoolActionUnsuitable = "CA-1306", Conflict, "a pool cannot use this action";
    MalformedPool = "CA-1310", Usage, "the pool cannot be read";
    InvalidPool = "CA-1311", Usage, "the pool breaks a rule";
    PoolNotFound = "CA-1312", NotFound, "the pool does not exist";
    PoolExists = "CA-1313", Conflict, "a pool of this name exists already";
    PoolInUse = "CA-1314", Conflict, "the pool is in use";
    PoolNotActive = "CA-1315", Conflict, "the pool does not start work";
    TrackerUnavailable = "CA-1330", Failed, "the tracker cannot be called";
    TrackerRefused = "CA-1331", Failed, "the tracker refused the request";
    TrackerListingIncomplete = "CA-1332", Failed, "the listing of the tracker is incomplete";
    TrackerLabelNotFound = "CA-1333", NotFound, "the tracker has no such label or milestone";
    TrackerIssueNotFound = "CA-1334", NotFound, "the tracker has no such issue";
    InvalidItemSource = "CA-1335", Usage, "the item source is not well formed";
    ItemSourceNotFound = "CA-1336", NotFound, "the item source does not exist";
    ItemSourceExists = "CA-1337", Conflict, "an item source of this name exists already";
    TrackerCredentialMissing = "CA-1338", Failed, "the credential of the tracker is not set";
    TrackerFileInvalid = "CA-1339", Failed, "a file of the tracker folder cannot be used";
    TrackerConflict = "CA-1340", Conflict, "another process changed the issue first";
    TrackerWriteIneffective = "CA-1341", Failed, "the tracker accepted a write without applying it";
    TrackerAnswerInvalid = "CA-1342", Failed, "the answer of the tracker cannot be read";
    ReadyMadePoolNotFound = "CA-1350", NotFound, "there is no ready-made pool of this name";
    PoolProjectUnsuitable = "CA-1351", Conflict, "the project does not link exactly one folder";
    NoModules = "CA-1352", NotFound, "there is no module to hunt in";
    RoleStopped = "CA-1353", Failed, "the work item was not finished";
}

/// An error that can be shown to users: it has a code, a hint and machine-readable details.
pub trait Diagnose: std::error::Error {
    /// Stable code of the error.
    fn code(&self) -> Code;

    /// Suggested fix, with the operation to run.
    fn hint(&self) -> Option<Hint> {
        None
    }

    /// Machine-readable facts: ids, candidates, limits.
    fn details(&self) -> Value {
        Value::Null
    }
}

macro_rules! diagnosed {
    ($($error:ty = $code:ident, $hint:literal;)+) => {$(
        impl Diagnose for $error {
            fn code(&self) -> Code {
                Code::$code
            }

            fn hint(&self) -> Option<Hint> {
                Some($hint.into())
            }
        }
    )+};
}

diagnosed! {
    crate::IdError = InvalidId, "give the full id, or at least its first 6 characters";
    crate::OperationError = InvalidChange, "name the resource and the path, and the state before and after";
    crate::TtlError = InvalidTtl, "choose a duration from 5 seconds to 1 hour";
}

#[cfg(test)]
mod tests {
    use super::Code;
    use std::collections::HashSet;

    #[test]
    fn codes_are_distinct_and_well_formed() {
        let mut seen = HashSet::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(seen.insert(text), "{text} is used twice");
            let digits = text.strip_prefix("CA-").expect("prefix");
            assert!(digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
}
