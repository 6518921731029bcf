//! Errors of fabrics, each with its remedy.

use std::io;
use std::path::PathBuf;

use crate::process::ProcessError;

/// Why a fabric could not be made, changed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// An argument that is out of range or cannot be read.
    #[error("{what} {value} is not possible: {accepted}")]
    Argument {
        /// The argument's name.
        what: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        accepted: String,
    },
    /// Only root can make namespaces.
    #[error("network namespaces need root: run as root, or with sudo -E env \"PATH=$PATH\"")]
    NotRoot,
    /// A program that this crate calls is not installed.
    #[error("`{program}` is not on PATH: install the package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// A program that this crate calls refused.
    #[error(
        "`{command}` failed: {said}; the kernel needs veth, tun, tbf, nf_tables and policy routing"
    )]
    Refused {
        /// The command, with the line of its batch where that is known.
        command: String,
        /// The standard error of the command.
        said: String,
    },
    /// A program that this crate calls failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action and its object.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A fabric of this name stands already.
    #[error("fabric {name} is up already: take it down first, or choose another name")]
    IsUp {
        /// The fabric.
        name: String,
    },
    /// No fabric of this name stands.
    #[error("fabric {name} is not up: `cargo xtask fabric up --name {name}` makes it")]
    NotUp {
        /// The fabric.
        name: String,
    },
    /// A fabric of this name belongs to another process that lives.
    #[error("fabric {name} is in the hands of process {pid}: end that, or choose another name")]
    Busy {
        /// The fabric.
        name: String,
        /// The owner, or the process that is making the fabric.
        pid: u32,
    },
    /// The file that describes a fabric is not valid.
    #[error("{path} is damaged ({why}): take the fabric down and up again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        why: String,
    },
    /// A link's device is not there.
    #[error("{device} is gone: its relay has ended; take the fabric down and up again")]
    LinkGone {
        /// The device and its namespace.
        device: String,
    },
    /// A link's device did not come into operation.
    #[error("{device} was set up and is not in operation")]
    LinkDown {
        /// The device and its namespace.
        device: String,
    },
    /// The relay process did not come up.
    #[error(
        "the relay for delayed links did not start: {said}; the program must answer `{}`",
        crate::relay::SUBCOMMAND
    )]
    Relay {
        /// The output of the relay before its end.
        said: String,
    },
}

impl FabricError {
    pub(crate) fn argument(
        what: &'static str,
        value: impl ToString,
        accepted: impl Into<String>,
    ) -> Self {
        Self::Argument { what, value: value.to_string(), accepted: accepted.into() }
    }

    /// Makes an error from the attempted action, for `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source: source.into() }
    }
}
