//! The ports of RoCEv2 of a worker, one for each IP version at most.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::claim::Claim;
use super::link::SharedLink;
use super::port::PortHandle;
use crate::link::udp::UdpLink;

/// The ports of a worker, as long as their links exist.
#[derive(Default)]
pub(crate) struct RocePorts(Mutex<Vec<Weak<PortHandle>>>);

impl RocePorts {
    /// Opens the port at an address, or joins the processes that have it.
    ///
    /// # Errors
    /// As for a UDP socket; `AddrInUse` if the processes do not let this one in.
    pub(crate) fn open(&self, addr: SocketAddr, receive_buffer: usize) -> io::Result<SharedLink> {
        let link = SharedLink::new(PortHandle::open(addr, receive_buffer)?, addr);
        self.insert(link.port());
        Ok(link)
    }

    /// Makes a port of a socket of this process. Others can join after [`RocePorts::start`].
    pub(crate) fn adopt(&self, mut udp: UdpLink, addr: SocketAddr) -> io::Result<SharedLink> {
        let link = SharedLink::new((PortHandle::of(&mut udp)?, udp, None), addr);
        self.insert(link.port());
        Ok(link)
    }

    fn insert(&self, port: &Arc<PortHandle>) {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(port));
    }

    /// Lets other processes use the ports.
    pub(crate) fn start(&self) {
        self.all().iter().for_each(|port| port.start());
    }

    /// Claims a destination at the ports to which hosts of the IP version of `towards` send.
    /// Returns false if another process has it.
    ///
    /// # Errors
    /// The process that reads the port does not answer.
    pub(crate) fn claim(&self, towards: IpAddr, claim: Claim) -> io::Result<bool> {
        let all = self.all();
        all.iter()
            .filter(|port| receives(port, towards))
            .try_fold(true, |is_free, port| Ok(is_free && port.share.claim(claim)?))
    }

    /// Takes the requests for connections to a service, at all ports. The last process that does
    /// has it.
    ///
    /// # Errors
    /// The process that reads a port does not answer.
    pub(crate) fn serve(&self, service: u64) -> io::Result<()> {
        self.all().iter().try_for_each(|port| port.share.claim(Claim::Service(service)).map(drop))
    }

    /// Gives a destination back, at all ports.
    pub(crate) fn release(&self, claim: Claim) {
        self.all().iter().for_each(|port| port.share.release(claim));
    }

    /// Claims a number for this process, by which management datagrams find it, at all ports.
    /// `None`: there is no free one.
    ///
    /// # Errors
    /// The process that reads a port does not answer.
    pub(crate) fn claim_tag(&self, start: u8) -> io::Result<Option<u8>> {
        let all = self.all();
        for step in 0..=u8::MAX {
            let tag = start.wrapping_add(step);
            let mut is_free = true;
            for port in &all {
                is_free = is_free && port.share.claim(Claim::Tag(tag))?;
            }
            if is_free {
                return Ok(Some(tag));
            }
            all.iter().for_each(|port| port.share.release(Claim::Tag(tag)));
        }
        Ok(None)
    }

    fn all(&self) -> Vec<Arc<PortHandle>> {
        let ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Whether what hosts of this IP version send arrives at the port.
fn receives(port: &PortHandle, towards: IpAddr) -> bool {
    let ip = port.share.local().ip();
    let is_dual = ip.is_unspecified() && ip.is_ipv6();
    is_dual || ip.is_ipv4() == towards.to_canonical().is_ipv4()
}
