//! The header of a result file: program, machine and units.

use std::collections::BTreeMap;
use std::{env, fs};

use serde::Serialize;

/// The header of a result file.
#[derive(Serialize)]
pub(crate) struct About {
    /// Version of `braid-perf`.
    version: &'static str,
    /// The command line without the program.
    arguments: Vec<String>,
    /// The machine that wrote the file.
    host: String,
    kernel: Option<String>,
    arch: &'static str,
    /// The meanings of key suffixes.
    units: BTreeMap<&'static str, &'static str>,
}

const UNITS: [(&str, &str); 8] = [
    ("_gbps", "10^9 bits per second"),
    ("_gbytes_s", "10^9 bytes per second"),
    ("_mmsgs", "10^6 messages per second"),
    ("_per_s", "per second"),
    ("_us", "microseconds"),
    ("_ms", "milliseconds"),
    ("_s", "seconds"),
    ("_bytes", "bytes"),
];

impl About {
    pub(crate) fn this_run() -> Self {
        About {
            version: env!("CARGO_PKG_VERSION"),
            arguments: env::args_os().skip(1).map(|word| word.display().to_string()).collect(),
            host: host_name(),
            kernel: kernel_setting("kernel/osrelease"),
            arch: env::consts::ARCH,
            units: UNITS.into(),
        }
    }
}

/// Returns the host name from the kernel.
pub(crate) fn host_name() -> String {
    kernel_setting("kernel/hostname").unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the content of a file below `/proc/sys`.
pub(crate) fn kernel_setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    Some(text.trim_end().to_owned())
}
