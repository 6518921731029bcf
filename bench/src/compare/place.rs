//! Two hosts to run on: servers on host 0, clients on host 1, or both ways round.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use braid_lab::{VethPair, listens};

use crate::failure::Failure;
use crate::pair::LISTEN_LIMIT;
use crate::program::Program;
use crate::scratch::Scratch;

pub(super) struct Place {
    hosts: VethPair,
    program: PathBuf,
    scratch: Scratch,
}

impl Place {
    pub(super) fn make(mtu: u32) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        Ok(Place { hosts: VethPair::up("compare", mtu)?, program, scratch: Scratch::make()? })
    }

    pub(super) fn address(&self, host: usize) -> Ipv4Addr {
        self.hosts.hosts()[host].ip
    }

    /// As `ip netns` names a host.
    pub(super) fn namespace(&self, host: usize) -> &str {
        &self.hosts.hosts()[host].netns
    }

    /// Of the files that programs exchange.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The processes on both hosts, by their ids.
    pub(super) fn processes(&self) -> Vec<i32> {
        self.hosts.processes()
    }

    /// A program on a host, not yet started.
    pub(super) fn command(&self, host: usize, program: impl AsRef<Path>) -> Command {
        self.hosts.command_on(&self.hosts.hosts()[host], program.as_ref())
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
        Program::start(&format!("{what} on h{host}"), command)
    }

    /// Waits until a server that does not say so listens at a TCP port.
    pub(super) fn wait_for_listener(&self, server: &Program, port: u16) -> Result<(), Failure> {
        let deadline = Instant::now() + LISTEN_LIMIT;
        while !listens(server.id(), port) {
            if Instant::now() > deadline {
                return Err(Failure::Trial(format!("nobody listens at TCP port {port}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}
