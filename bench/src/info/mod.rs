//! `braid-perf info`: the build, the machine, and the defaults in force.

mod datapaths;
mod defaults;
mod interfaces;
mod policies;
mod rdma_devices;
mod text;

use std::path::Path;
use std::thread;

use serde::Serialize;

use self::datapaths::Offer;
use self::defaults::Setting;
use self::interfaces::Interface;
use self::policies::Choice;
use self::rdma_devices::RdmaDevice;
use crate::about::kernel_setting;
use crate::cli::InfoArgs;
use crate::failure::{Attempt, Failure};
use crate::json_file::JsonFile;
use crate::stdio;

/// The information of `braid-perf info`.
#[derive(Serialize)]
struct Info {
    version: &'static str,
    build: Build,
    system: System,
    interfaces: Vec<Interface>,
    rdma_devices: Vec<RdmaDevice>,
    datapaths: Vec<Offer>,
    path_policies: Vec<Choice>,
    rail_policies: Vec<Choice>,
    controllers: Vec<Choice>,
    loss_recoveries: Vec<Choice>,
    defaults: Vec<Setting>,
}

#[derive(Serialize)]
struct Build {
    /// `release`, or `debug` if it has its assertions.
    profile: &'static str,
    arch: &'static str,
    os: &'static str,
}

#[derive(Serialize)]
struct System {
    /// The kernel's release; absent if `/proc` does not report it.
    kernel: Option<String>,
    /// Number of cores that this process may run on.
    cores: Option<usize>,
    /// Bytes of receive buffer that a socket gets without privilege.
    rmem_max: Option<u64>,
}

/// Gathers and shows the information.
///
/// # Errors
/// The interfaces cannot be listed, or the output cannot be written.
pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    let file = JsonFile::asked(args.json.as_ref())?;
    let info = gather()?;
    if !file.as_ref().is_some_and(JsonFile::is_standard_output) {
        stdio::print(|out| text::print(out, &info))?;
    }
    file.map_or(Ok(()), |file| file.write(&info))
}

fn gather() -> Result<Info, Failure> {
    let rdma_devices = rdma_devices::list(Path::new(rdma_devices::SYSFS));
    let names: Vec<&str> = rdma_devices.iter().map(|device| device.name.as_str()).collect();
    Ok(Info {
        version: env!("CARGO_PKG_VERSION"),
        build: Build {
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            arch: std::env::consts::ARCH,
            os: std::env::consts::OS,
        },
        system: System {
            kernel: kernel_setting("kernel/osrelease"),
            cores: thread::available_parallelism().ok().map(usize::from),
            rmem_max: kernel_setting("net/core/rmem_max").and_then(|bytes| bytes.parse().ok()),
        },
        interfaces: interfaces::list().attempt("interfaces")?,
        datapaths: datapaths::all(&names),
        rdma_devices,
        path_policies: policies::of_paths(),
        rail_policies: policies::of_rails(),
        controllers: policies::of_congestion(),
        loss_recoveries: policies::of_losses(),
        defaults: defaults::all()?,
    })
}
