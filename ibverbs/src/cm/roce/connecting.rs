//! Connecting to a listener of the kernel's rdma_cm.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};

use braid::RocePort;
use braid_transport::CmEventKind;
use braid_wire::{CmReply, DEFAULT_PORT};

use super::super::events::EventKind;
use super::super::id::IdShared;
use super::super::message::CmMessage;
use super::super::options::RoceTerms;
use super::super::purpose::Purpose;
use super::super::requesting::{Failed, NOBODY_LISTENS, failed};
use super::gsi::{ConnectionEvents, Gsi, OpenError, Owner, RoceLink};
use super::messages::{self, REQUEST_DATA, of_reply, rejection};
use crate::errno::Errno;

/// The local ack timeout of connections, unless the program sets one: 4.096 us * 2^16, 0.27 s.
const ACK_TIMEOUT: u8 = 16;

/// Connects to the listener at `to`. Reports `RDMA_CM_EVENT_ESTABLISHED`, or `.._CONNECT_RESPONSE`
/// if the program connects its queue pair itself. `is_needed`: RoCEv2 is spoken to all peers.
pub(in crate::cm) fn connect(
    shared: &Arc<IdShared>,
    attempt: &Arc<()>,
    (from, to): (SocketAddr, SocketAddr),
    (message, retry_count): (&CmMessage, u8),
    is_needed: bool,
) -> Result<(), Failed> {
    let (gsi, port) = open((from, to), is_needed)?;
    let options = *shared.options();
    let mut terms = RoceTerms {
        mtu: port.mtu.code(),
        recv_psn: random_psn().map_err(|errno| failed(errno.0))?,
        send_psn: 0,
        ack_timeout: options.ack_timeout.unwrap_or(ACK_TIMEOUT),
        retry_count: retry_count.min(7),
        most_reads: 0,
    };
    let request = messages::request(message, (from, to), &terms, options.tos).ok_or_else(|| {
        tracing::error!(%to, bytes = message.private_data.len(), most = REQUEST_DATA,
            "the private data of rdma_connect is too long for a peer that is not Braid");
        failed(libc::EINVAL)
    })?;
    let (sender, receiver) = channel();
    let id = gsi.connect(to.ip(), request, Owner::Attempt(sender));
    let link = RoceLink { gsi, id };
    if !shared.connection().open_roce(attempt, &link) {
        link.close();
        return Err(failed(libc::ECONNABORTED));
    }
    let connected = match receiver.recv() {
        Ok(CmEventKind::Replied(reply)) => {
            terms.send_psn = reply.queue_pair.psn;
            terms.most_reads = reply.counts.responder_resources;
            shared.options().roce = Some(terms);
            finish(shared, &link, &receiver, (&reply, to.ip()))
        }
        Ok(CmEventKind::Rejected(reason, data)) => {
            let (status, answer) = rejection(reason, &data);
            Err((EventKind::Rejected, status, Some(answer)))
        }
        Ok(CmEventKind::Unreachable) => Err((EventKind::Unreachable, -libc::ETIMEDOUT, None)),
        // The program has given up.
        Ok(_) | Err(_) => Err(failed(libc::ECONNABORTED)),
    };
    connected.inspect_err(|_| {
        link.close();
        shared.connection().lose_roce(&link, attempt);
    })
}

/// Opens queue pair 1 for messages to the host of `to`.
pub(super) fn open(
    (from, to): (SocketAddr, SocketAddr),
    is_needed: bool,
) -> Result<(Arc<Gsi>, RocePort), Failed> {
    let opened = Gsi::of(from.ip()).and_then(|gsi| {
        let port = gsi.running.engine.roce_port(SocketAddr::new(to.ip(), DEFAULT_PORT));
        port.map(|port| (gsi, port)).map_err(OpenError::Port)
    });
    opened.map_err(|error| {
        tracing::warn!(%to, %error, "no listener answers as Braid, and RoCEv2 is not possible");
        match is_needed {
            true => failed(error.errno()),
            false => (EventKind::Rejected, NOBODY_LISTENS, None),
        }
    })
}

/// Connects the queue pair after the other end has accepted, or leaves that to the program.
fn finish(
    shared: &Arc<IdShared>,
    link: &RoceLink,
    receiver: &Receiver<CmEventKind>,
    (reply, peer): (&CmReply, IpAddr),
) -> Result<(), Failed> {
    let answer = of_reply(reply, peer);
    shared.wire_up.set_peer(&answer);
    let event = if shared.has_queue_pair() {
        shared.connect().map_err(|errno| failed(errno.0))?;
        link.ready().map_err(|errno| failed(errno.0))?;
        EventKind::Established
    } else {
        EventKind::ConnectResponse
    };
    shared.report(event, 0, Some(answer.into()));
    link.gsi.set_owner(link.id, Owner::Connection(weak(shared)));
    // These came before the thread of the messages knew the owner.
    for kind in receiver.try_iter() {
        if kind == CmEventKind::Disconnected {
            link.gsi.remove_owner(link.id);
        }
        shared.on_event(kind);
    }
    Ok(())
}

/// Accepts a request: connects the queue pair, and answers.
///
/// # Errors
/// `EINVAL`: the private data is too long, or the queue pair cannot be connected. `ECONNRESET`: the
/// other end is gone.
pub(in crate::cm) fn accept(
    shared: &IdShared,
    link: &RoceLink,
    accept: &CmMessage,
) -> Result<(), Errno> {
    let terms = shared.options().roce.ok_or(Errno::INVALID)?;
    let mut accept = accept.clone();
    if let Purpose::Connection(limits) = &mut accept.purpose {
        limits.initiator_depth = limits.initiator_depth.min(terms.most_reads);
    }
    let reply = messages::reply(&accept, &terms).ok_or(Errno::INVALID)?;
    if shared.has_queue_pair() {
        shared.connect()?;
    }
    link.accept(reply)
}

/// The receiver of a connection's events: its identifier.
pub(super) fn weak(shared: &Arc<IdShared>) -> Weak<dyn ConnectionEvents> {
    let shared: Weak<IdShared> = Arc::downgrade(shared);
    shared
}

/// A random PSN.
pub(super) fn random_psn() -> Result<u32, Errno> {
    getrandom::u32().map(|random| random & 0xFF_FFFF).map_err(|_| Errno(libc::EIO))
}
