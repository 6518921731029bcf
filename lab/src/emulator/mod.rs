//! A network emulator. Hosts are namespaces, and every packet between them passes one bottleneck
//! whose rate, queue, delay, marking and reordering are exact.
//!
//! Each host has one tun device whose other end this process holds. A thread reads the packets,
//! sends each through the queue of one [`Link`], and writes it to its host. The
//! [trace](Emulator::take_trace) has every packet, so that queueing delays, shares and utilisation
//! do not depend on the programs. The devices have no offloads, so the queue holds packets as on a
//! wire.
//!
//! The emulator needs neither netem nor a queueing discipline of the kernel. It carries about 500
//! Mb/s of packets of 1500 bytes beside two busy programs on two cores. [`Passage::late`] tells
//! when it could not keep up.

mod line;
mod network;
mod packet;
mod switch;

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use self::switch::{Shared, Switch};
use crate::layout::{Layout, host_ip};
use crate::{FabricError, Host, configure, namespace, remove, tools};

pub use line::{Fate, Passage};
pub use network::{HEADER_BYTES, Link, Network, Reordering, Topology};

/// Packets that wait for the switch before the kernel drops them: more than two windows of 4 MiB.
const WAITING: u32 = 10_000;

/// An emulated network, which goes with this value. The next network or fabric removes the remains
/// of a killed process.
#[derive(Debug)]
pub struct Emulator {
    network: Network,
    hosts: Vec<Host>,
    began: Instant,
    shared: Arc<Shared>,
    switch: Option<JoinHandle<Result<(), FabricError>>>,
}

impl Emulator {
    /// Makes a network. The caller needs root and `ip`.
    ///
    /// # Errors
    /// The network is not possible, or the system refuses; then nothing is left.
    pub fn up(network: Network) -> Result<Self, FabricError> {
        network.check()?;
        tools::need()?;
        remove::sweep()?;
        let hosts = hosts(&network);
        let mut emulator = Emulator {
            network,
            hosts,
            began: Instant::now(),
            shared: Arc::default(),
            switch: None,
        };
        emulator.build()?;
        Ok(emulator)
    }

    /// The plan of the network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// All hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A command that runs a program on a host. The end of the network kills the program.
    pub fn command_on(&self, host: &Host, program: &Path) -> Command {
        tools::inside(&host.netns, program)
    }

    /// Runs a function on a host, on a thread of its own. Sockets that the function opens stay on
    /// that host, wherever they are used later.
    ///
    /// # Errors
    /// The host's namespace is gone.
    pub fn on<T: Send>(
        &self,
        host: &Host,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, FabricError> {
        namespace::inside(&host.netns, work)
    }

    /// The time of the [trace](Self::take_trace).
    #[must_use]
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The passage of every packet that was delivered or dropped since the last call.
    ///
    /// # Errors
    /// The network has failed meanwhile.
    pub fn take_trace(&mut self) -> Result<Vec<Passage>, FabricError> {
        if self.switch.as_ref().is_some_and(JoinHandle::is_finished) {
            self.stop()?;
        }
        Ok(std::mem::take(&mut *self.shared.trace.lock().expect("nobody panics with it")))
    }

    fn build(&mut self) -> Result<(), FabricError> {
        let made: String = self.hosts.iter().map(|h| format!("netns add {}\n", h.netns)).collect();
        tools::ip(&made)?;
        let mut devices = Vec::new();
        for host in &self.hosts {
            namespace::set(&host.netns, configure::EVERYWHERE)?;
            devices.push(tun(&host.netns)?);
            tools::ip_in(&host.netns, &configured(host, self.network.mtu))?;
        }
        let addresses = self.hosts.iter().map(|host| host.ip).collect();
        let (network, shared) = (self.network.clone(), Arc::clone(&self.shared));
        let switch = Switch { network, addresses, devices, began: self.began };
        let started = thread::Builder::new()
            .name("network emulator".into())
            .spawn(move || switch.run(&shared))
            .map_err(FabricError::system("start the emulator's thread"))?;
        self.switch = Some(started);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), FabricError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = self.switch.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let names: Vec<String> = self.hosts.iter().map(|host| host.netns.clone()).collect();
        // The next network removes the rest.
        let _ = namespace::remove(&names);
        // `take_trace` has returned the error to a caller who asked.
        let _ = self.stop();
    }
}

fn hosts(network: &Network) -> Vec<Host> {
    let layout = Layout::new(&network.name, Some(std::process::id()));
    let host = |index| Host {
        name: format!("h{index}"),
        ip: host_ip(0, index),
        netns: layout.host(index),
        leaf: 0,
    };
    (0..network.hosts()).map(host).collect()
}

/// Lines for `ip` in a host.
fn configured(host: &Host, mtu: u32) -> String {
    format!(
        "link set lo up\n\
         address add {}/32 dev eth0\n\
         link set eth0 mtu {mtu} up\n\
         route add default dev eth0 src {}\n",
        host.ip, host.ip
    )
}

fn tun(namespace: &str) -> Result<SyncDevice, FabricError> {
    let build = || {
        let tun = DeviceBuilder::new()
            .name("eth0")
            .layer(Layer::L3)
            .tx_queue_len(WAITING)
            .enable(false)
            .build_sync()?;
        tun.set_nonblocking(true)?;
        Ok(tun)
    };
    namespace::inside(namespace, build)?
        .map_err(|e: io::Error| FabricError::system(format!("make eth0 in {namespace}"))(e))
}
