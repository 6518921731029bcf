//! An emulated network to run a case on.

use std::path::PathBuf;
use std::time::Duration;

use braid_lab::Host;
use braid_lab::emulator::{Emulator, Network, Passage};

use crate::failure::Failure;
use crate::program;
use crate::scratch::Scratch;
use braid_lab::process::Program;

use super::case::CongestionCase;

const MTU: u32 = 1500;
/// The user and group without rights, `nobody`.
const NOBODY: u32 = 65_534;

pub(super) struct EmulatedLab {
    emulator: Emulator,
    program: PathBuf,
    scratch: Scratch,
}

impl EmulatedLab {
    pub(super) fn make(case: &CongestionCase) -> Result<Self, Failure> {
        let network = Network { name: "cc".to_owned(), mtu: MTU, topology: case.topology.clone() };
        let scratch = Scratch::make()?;
        let io = |what: &str, why| Failure::Io { what: what.to_owned(), why };
        // A copy that `nobody` may read, and that no build replaces.
        let program = scratch.path().join("braid-perf");
        let own = std::env::current_exe().map_err(|why| io("cannot find this program", why))?;
        std::fs::copy(own, &program).map_err(|why| io("cannot copy this program", why))?;
        std::os::unix::fs::chown(scratch.path(), Some(NOBODY), Some(NOBODY))
            .map_err(|why| io("cannot give a folder away", why))?;
        Ok(EmulatedLab { emulator: Emulator::up(network)?, program, scratch })
    }

    pub(super) fn mtu(&self) -> u32 {
        self.emulator.network().mtu
    }

    pub(super) fn host(&self, index: usize) -> &Host {
        &self.emulator.hosts()[index]
    }

    /// Returns the path of a file that programs may write.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Starts this program on a host, without any privilege.
    pub(super) fn start(
        &self,
        what: &str,
        host: usize,
        args: &[String],
    ) -> Result<Program, Failure> {
        let host = self.host(host);
        let mut command = self.emulator.command_on(host, "setpriv".as_ref());
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")]);
        command.args(["--clear-groups", "--bounding-set=-all", "--no-new-privs"]);
        command.arg(&self.program).args(args);
        program::start(&format!("{what} on {}", host.name), command)
    }

    /// Starts this program as root, because other users may not choose the kernel's congestion
    /// control.
    pub(super) fn start_as_root(
        &self,
        what: &str,
        host: usize,
        args: &[String],
    ) -> Result<Program, Failure> {
        let host = self.host(host);
        let mut command = self.emulator.command_on(host, &self.program);
        command.args(args);
        program::start(&format!("{what} on {}", host.name), command)
    }

    /// Runs `work` in the namespace of a host, for example to create a socket there.
    pub(super) fn on<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, Failure> {
        Ok(self.emulator.on(self.host(host), work)?)
    }

    /// Returns the time on the clock of the trace.
    pub(super) fn now(&self) -> Duration {
        self.emulator.now()
    }

    /// Takes the trace since the last call.
    pub(super) fn take_trace(&mut self) -> Result<Vec<Passage>, Failure> {
        Ok(self.emulator.take_trace()?)
    }
}
