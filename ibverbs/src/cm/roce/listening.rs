//! Listening for connections of the kernel's rdma_cm, beside those of Braid.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use braid::RoceMtu;
use braid_wire::{CmLookup, CmLookupStatus, CmRejectReason, CmRequest, DEFAULT_PORT, IpCmHeader};

use super::super::addresses::to_c;
use super::super::connection::Connection;
use super::super::id::{Id, IdShared, rdma_destroy_id};
use super::super::inherited::Inherited;
use super::super::message::CmMessage;
use super::super::options::RoceTerms;
use super::super::port_space::PortSpace;
use super::connecting::{random_psn, weak};
use super::gsi::{Gsi, Owner, RequestEvents, RoceLink, RoceService};
use super::messages::{of_lookup, of_request};
use crate::device;
use crate::errno::Errno;
use crate::gid;

/// A listener, as the thread of the messages holds it.
pub(in crate::cm) struct RoceListener {
    shared: Weak<IdShared>,
    inherited: Inherited,
    /// The address and port that it listens at.
    bound: SocketAddr,
    /// Whether a wildcard address of IPv6 leaves out IPv4.
    is_family_only: bool,
}

impl RoceListener {
    pub(in crate::cm) fn new(
        shared: &Arc<IdShared>,
        inherited: Inherited,
        bound: SocketAddr,
    ) -> Arc<Self> {
        let is_family_only = shared.options().is_family_only;
        Arc::new(RoceListener { shared: Arc::downgrade(shared), inherited, bound, is_family_only })
    }

    /// Listens at the devices of the listener's addresses. At devices whose port of RoCEv2 another
    /// program or the kernel has, only Braid reaches it, unless RoCEv2 is spoken to all peers
    /// (`is_needed`).
    ///
    /// # Errors
    /// RoCEv2 is needed, and a device does not receive it.
    pub(in crate::cm) fn listen(
        self: &Arc<Self>,
        is_needed: bool,
    ) -> Result<Vec<RoceService>, Errno> {
        let addrs: Vec<IpAddr> = match self.bound.ip() {
            ip if ip.is_unspecified() => {
                let all = device::list().unwrap_or_default().into_iter();
                all.map(|device| device.interface.addr).collect()
            }
            ip => vec![ip],
        };
        let service = match self.inherited.ps {
            PortSpace::Udp => IpCmHeader::datagram_service(self.bound.port()),
            PortSpace::Tcp | PortSpace::Ib => IpCmHeader::service(self.bound.port()),
        };
        let mut services = Vec::new();
        for addr in addrs {
            // Other processes of this host are Braid.
            if addr.is_loopback() && !is_needed {
                continue;
            }
            match Gsi::of(addr).and_then(|gsi| gsi.listen(service, self.clone())) {
                Ok(listening) => services.push(listening),
                Err(error) if is_needed => {
                    tracing::error!(%addr, %error, "no listener for RoCEv2");
                    return Err(Errno(error.errno()));
                }
                Err(error) => {
                    tracing::info!(%addr, %error, "peers that are not Braid cannot connect");
                }
            }
        }
        Ok(services)
    }
}

impl RequestEvents for RoceListener {
    fn takes(&self, called: IpAddr) -> bool {
        let bound = self.bound.ip();
        match bound.is_unspecified() {
            true if self.is_family_only => bound.is_ipv4() == called.is_ipv4(),
            true => bound.is_ipv6() || called.is_ipv4(),
            false => bound == called,
        }
    }

    fn on_request(&self, link: &RoceLink, peer: IpAddr, request: &CmRequest) {
        let called = IpAddr::V6(request.path.remote).to_canonical();
        let route = link.gsi.running.engine.roce_port(SocketAddr::new(peer, DEFAULT_PORT));
        match (route, RoceMtu::from_code(request.path.mtu.into())) {
            (Ok(route), _) if route.gid != called => link.refuse(CmRejectReason::INVALID_GID),
            (Ok(route), Some(mtu)) if mtu <= route.mtu => {
                if accept_request(self, link, (peer, called), request).is_none() {
                    link.refuse(CmRejectReason::NO_RESOURCES);
                }
            }
            _ => {
                tracing::warn!(%peer, code = request.path.mtu,
                    "the path MTU that the peer asks for does not pass here: raise the interface's MTU");
                link.refuse(CmRejectReason::INVALID_MTU);
            }
        }
    }

    fn on_lookup(&self, link: &RoceLink, peer: IpAddr, header: &IpCmHeader, lookup: &CmLookup) {
        let ends = (SocketAddr::new(peer, header.from.port()), header.to);
        if make_connection(self, link, ends, (of_lookup(lookup, peer), None)).is_none() {
            link.refuse_lookup(lookup, CmLookupStatus::NO_QP);
        }
    }
}

/// Makes the identifier of a request and reports it. `None`: the program does not get it.
fn accept_request(
    listener: &RoceListener,
    link: &RoceLink,
    (peer, called): (IpAddr, IpAddr),
    request: &CmRequest,
) -> Option<()> {
    let header = IpCmHeader::decode(&request.private_data)?;
    let (message, terms) = of_request(request, peer, random_psn().ok()?);
    let from = SocketAddr::new(peer, header.from.port());
    make_connection(listener, link, (from, called), (message, Some(terms)))
}

/// Makes an identifier and reports it. `None`: the program does not get it.
fn make_connection(
    listener: &RoceListener,
    link: &RoceLink,
    (from, called): (SocketAddr, IpAddr),
    (message, terms): (CmMessage, Option<RoceTerms>),
) -> Option<()> {
    let shared = listener.shared.upgrade()?;
    let target = shared.target()?.of_connection().ok()?;
    let Inherited { context, ps, .. } = listener.inherited;
    let connection = Id::make(target, context, ps);
    // SAFETY: the identifier has just been made.
    let is_known = unsafe { Id::of(connection) }.is_ok_and(|object| {
        object.base.route.addr.dst_addr = to_c(from);
        object.base.route.addr.ibaddr.dgid = gid::of(from.ip());
        object.shared.wire_up.set_peer(&message);
        object.shared.options().roce = terms;
        *object.shared.connection() = Connection::RoceRequested(link.clone());
        link.gsi.set_owner(link.id, Owner::Connection(weak(&object.shared)));
        let local = SocketAddr::new(called, listener.bound.port());
        object.bind_to(local).is_ok() && shared.report_request(connection, message)
    });
    if !is_known {
        // SAFETY: as above; the program does not know the identifier.
        unsafe { rdma_destroy_id(connection) };
    }
    is_known.then_some(())
}
