//! `mcp`: servers of the Model Context Protocol.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Register a server
    Add(Box<McpAdd>),
    /// Register the servers of another program's file, `mcpServers` or `servers` in JSON
    #[command(
        after_help = "Keys that stand in the file are not kept: the name of a variable takes their place, and you are
told which ones to set.

Examples:
  agents mcp import ~/.config/other/mcp.json
  agents mcp import .vscode/mcp.json --update"
    )]
    Import {
        /// The JSON file, `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Replace servers of the same names
        #[arg(long)]
        update: bool,
    },
    /// List the servers there are
    #[command(after_help = "Example:
  agents --format json mcp list")]
    List,
    /// Show a server, and the tools that it offers
    #[command(after_help = "Examples:
  agents mcp show time
  agents mcp show time --offline")]
    Show {
        #[command(flatten)]
        server: ServerReference,
        /// Do not start or ask it; show only how it is registered
        #[arg(long)]
        offline: bool,
    },
    /// Start a server, ask what it offers, and stop it again
    #[command(after_help = "Example:
  agents mcp test time")]
    Test {
        #[command(flatten)]
        server: ServerReference,
    },
    /// Sign in to a server over HTTP, through your browser
    #[command(
        after_help = "The token is kept in a file of the home folder that only you can read.

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
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServerReference {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A server is a program, given behind `--`, or an address, or what a YAML file says. `agents schema
mcp` prints the JSON schema of such files. Models use its tools with --mcp NAME, or when their actor
or skill names it.

A program sees the system's folders, your toolchains, a private home, the sandbox of its calls, and the
absolute paths among its arguments, read-only. Declare more with --read and --write.

Examples:
  agents mcp add time -- uvx mcp-server-time
  agents mcp add files --read-only -- npx -y @modelcontextprotocol/server-filesystem /srv/docs
  agents mcp add files --update --read ~/notes
  agents mcp add tracker --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${TRACKER_TOKEN}'
  agents mcp add --config servers.yaml"
)]
pub(crate) struct McpAdd {
    /// What it is called here: the namespace of its tools
    #[arg(
        value_name = "NAME",
        required_unless_present = "config",
        conflicts_with = "config"
    )]
    pub(crate) name: Option<String>,
    /// The YAML file of one or several servers, `-` for standard input
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address of a server over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "command"])]
    pub(crate) url: Option<String>,
    /// A header for each request; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    pub(crate) header: Vec<String>,
    /// A variable for the program, such as TOKEN=${MY_TOKEN}; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    pub(crate) env: Vec<String>,
    /// A file or folder that the program may read; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) read: Vec<PathBuf>,
    /// A folder that the program may read and write; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) write: Vec<PathBuf>,
    /// A credential file or folder, such as ~/.aws, that the program may read; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "url"])]
    pub(crate) credentials: Vec<PathBuf>,
    /// Offer only these of its tools, names or patterns; may be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "config")]
    pub(crate) include: Vec<String>,
    /// Do not offer these of its tools; may be repeated
    #[arg(long, value_name = "PATTERN", conflicts_with = "config")]
    pub(crate) exclude: Vec<String>,
    /// All of its tools only look: they may be called without asking
    #[arg(long, conflicts_with = "config")]
    pub(crate) read_only: bool,
    /// Replace a server of the same name; without a program or an address, change only what is given
    #[arg(long)]
    pub(crate) update: bool,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", last = true, conflicts_with = "config")]
    pub(crate) command: Vec<String>,
}
