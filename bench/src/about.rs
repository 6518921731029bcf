//! What run a file of results is of.

use std::collections::BTreeMap;
use std::{env, fs};

use serde::Serialize;

/// It stands in every file of results.
#[derive(Serialize)]
pub(crate) struct About {
    /// Of `braid-perf`.
    version: &'static str,
    /// The command line, without the program.
    arguments: Vec<String>,
    /// The machine that has written the file.
    host: String,
    kernel: Option<String>,
    arch: &'static str,
    /// What the ends of keys mean.
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
            kernel: kernel_says("kernel/osrelease"),
            arch: env::consts::ARCH,
            units: UNITS.into(),
        }
    }
}

/// As the kernel has it.
pub(crate) fn host_name() -> String {
    kernel_says("kernel/hostname").unwrap_or_else(|| "unknown".to_owned())
}

/// What stands in a file below `/proc/sys`.
pub(crate) fn kernel_says(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    Some(text.trim_end().to_owned())
}
