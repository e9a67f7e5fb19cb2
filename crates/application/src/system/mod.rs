//! The program itself: its version, the state of its database, and its diagnostics.

mod diagnostics;
pub mod operations;

pub use diagnostics::{
    CheckSeverity, DiagnosticCheck, DiagnosticRepair, DiagnosticSummary, DiagnosticsReport,
    check_confinement, check_database, check_database_file, check_disk, check_git, check_home,
    check_sqlite,
};
