//! `mcp`: servers of the Model Context Protocol.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Register a server
    Add(Box<McpAdd>),
    /// Register the servers of another program's JSON file (`mcpServers` or `servers`)
    #[command(
        after_help = "Secrets in the file are not stored: they become references to environment variables, and the
command lists the variables to set.

Examples:
  agents mcp import ~/.config/other/mcp.json
  agents mcp import .vscode/mcp.json --update"
    )]
    Import {
        /// JSON file, `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Replace servers of the same names
        #[arg(long)]
        update: bool,
    },
    /// List servers
    #[command(after_help = "Example:
  agents --format json mcp list")]
    List,
    /// Show a server and its tools
    #[command(after_help = "Examples:
  agents mcp show time
  agents mcp show time --offline")]
    Show {
        #[command(flatten)]
        server: ServerReference,
        /// Do not start or contact it; show only its registration
        #[arg(long)]
        offline: bool,
    },
    /// Start a server, list its tools and stop it
    #[command(after_help = "Example:
  agents mcp test time")]
    Test {
        #[command(flatten)]
        server: ServerReference,
    },
    /// Sign in to an HTTP server through your browser
    #[command(
        after_help = "The token is stored in the home folder, in a file that only you can read.

Example:
  agents mcp login tracker"
    )]
    Login {
        #[command(flatten)]
        server: ServerReference,
    },
    /// Remove a server
    #[command(after_help = "Example:
  agents mcp remove time --yes")]
    Remove {
        #[command(flatten)]
        server: ServerReference,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServerReference {
    /// Server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A server is a program (after `--`), a URL, or defined in a YAML file. `agents schema
mcp` prints the JSON schema of such files. Models use its tools with --mcp NAME, or when their actor
or skill names it.

A program can read system folders, your toolchains, a private home, the sandbox of its calls, and the
absolute paths among its arguments (read-only). Allow more with --read and --write.

Examples:
  agents mcp add time -- uvx mcp-server-time
  agents mcp add files --read-only -- npx -y @acme/mcp-files /srv/docs
  agents mcp add files --update --read ~/notes
  agents mcp add tracker --url https://mcp.example.com --header 'X-Key=${KEY}'
  agents mcp add --config servers.yaml"
)]
pub(crate) struct McpAdd {
    /// Name of the server and namespace of its tools
    #[arg(
        value_name = "NAME",
        required_unless_present = "config",
        conflicts_with = "config"
    )]
    pub(crate) name: Option<String>,
    /// YAML file of one or more servers, `-` for standard input
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// URL of an HTTP server
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "command"])]
    pub(crate) url: Option<String>,
    /// HTTP header of each request; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    pub(crate) header: Vec<String>,
    /// Environment variable of the program, such as TOKEN=${MY_TOKEN}; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    pub(crate) env: Vec<String>,
    /// File or folder that the program may read; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) read: Vec<PathBuf>,
    /// Folder that the program may read and write; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) write: Vec<PathBuf>,
    /// Credential file or folder, such as ~/.aws, that the program may read; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) credentials: Vec<PathBuf>,
    /// Offer only these tools, names or patterns; may be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "config")]
    pub(crate) include: Vec<String>,
    /// Do not offer these tools; may be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "config")]
    pub(crate) exclude: Vec<String>,
    /// Treat its tools as read-only, so that they run without approval
    #[arg(long, conflicts_with = "config")]
    pub(crate) read_only: bool,
    /// Replace the server of the same name; without a program or URL, change only the given options
    #[arg(long)]
    pub(crate) update: bool,
    /// Program and its arguments
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "config")]
    pub(crate) command: Vec<String>,
}
