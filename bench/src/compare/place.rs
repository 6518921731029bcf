//! The two hosts of a run: servers on host 0 and clients on host 1, or the reverse.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use braid_lab::VethPair;

use crate::failure::Failure;
use crate::pair::LISTEN_LIMIT;
use crate::peer;
use crate::program;
use crate::scratch::Scratch;
use braid_lab::process::Program;

pub(super) struct Place {
    hosts: VethPair,
    program: PathBuf,
    scratch: Scratch,
    /// The processor that each host's programs are bound to, if they are.
    processors: Option<[usize; 2]>,
}

impl Place {
    pub(super) fn make(mtu: u32) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        Ok(Place {
            hosts: VethPair::up("compare", mtu)?,
            program,
            scratch: Scratch::make()?,
            processors: None,
        })
    }

    /// Sets whether the programs of each host are bound to a processor of their own. Otherwise two
    /// that spin may share one, and are as slow as the scheduler's turns are long. With one
    /// processor there is no choice.
    pub(super) fn keep_apart(&mut self, apart: bool) {
        self.processors = match peer::allowed_cores()[..] {
            [first, second, ..] if apart => Some([first, second]),
            _ => None,
        };
    }

    /// Returns the processor that a host's programs are bound to, if they are.
    pub(super) fn processor(&self, host: usize) -> Option<usize> {
        self.processors.map(|processors| processors[host])
    }

    pub(super) fn address(&self, host: usize) -> Ipv4Addr {
        self.hosts.hosts()[host].ip
    }

    /// Returns the name of a host for `ip netns`.
    pub(super) fn namespace(&self, host: usize) -> &str {
        &self.hosts.hosts()[host].netns
    }

    /// Returns the folder for the programs' files.
    pub(super) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the path of a file that programs exchange.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the ids of the processes on both hosts.
    pub(super) fn processes(&self) -> Vec<i32> {
        self.hosts.processes()
    }

    /// Returns the command that runs a program on a host.
    pub(super) fn command(&self, host: usize, program: impl AsRef<Path>) -> Command {
        let on_host = |program: &Path| self.hosts.command_on(host, program);
        let Some(processor) = self.processor(host) else { return on_host(program.as_ref()) };
        let mut command = on_host("taskset".as_ref());
        command.args(["-c", &processor.to_string()]).arg(program.as_ref());
        command
    }

    /// Starts this program on a host.
    pub(super) fn start(
        &self,
        what: &str,
        host: usize,
        args: &[String],
    ) -> Result<Program, Failure> {
        let mut command = self.command(host, &self.program);
        command.args(args);
        program::start(&format!("{what} on h{host}"), command)
    }

    /// Waits until a server that prints nothing listens at a TCP port.
    pub(super) fn wait_for_listener(&self, server: &Program, port: u16) -> Result<(), Failure> {
        match braid_lab::wait_for_listener(server.child.id(), port, LISTEN_LIMIT) {
            true => Ok(()),
            false => Err(Failure::Trial(format!("nobody listens at TCP port {port}"))),
        }
    }
}
