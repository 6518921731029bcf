//! Sending datagrams.

use std::sync::Arc;
use std::time::Duration;

use braid_verbs::abi::ibv_send_wr;

use super::datagrams::{Datagrams, MAX_DATAGRAM};
use super::flow::{Flow, OutgoingDatagram};
use super::roce::RoceRoute;
use crate::ah::Ah;
use crate::connect::hello::Hello;
use crate::connect::inbox::ControlMessage;
use crate::errno::Errno;
use crate::grh::{self, GRH_LEN};
use crate::numbers;
use crate::peer::Peer;
use crate::qp::handle::Qp;
use crate::qp::queue_pair::QueuePair;
use crate::requests::{engine_sge, is_inline, pieces, send_wr};
use crate::routes::Route;

/// Programs may not name Q_Keys with this bit in work requests.
const CONTROLLED_Q_KEY: u32 = 1 << 31;
/// Time that a flow has to reach its destination. After that, the datagrams that wait are lost.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Posts a send of type UD.
///
/// # Safety
/// The caller's promise, for the work request and its memory.
pub(crate) unsafe fn send_datagram(
    handle: &Qp,
    datagrams: &Datagrams,
    wr: &ibv_send_wr,
) -> Result<(), Errno> {
    let qp = &handle.shared;
    // SAFETY: by the caller's promise: the queue pair's type says which member of the union it is.
    let to = unsafe { wr.wr.ud };
    // SAFETY: as above.
    let ah = unsafe { to.ah.cast::<Ah>().as_ref() }.ok_or(Errno::INVALID)?;
    // SAFETY: as above: the domain outlives its address handles.
    if !unsafe { ah.is_of(&datagrams.domain) } {
        return Err(Errno::INVALID);
    }
    // SAFETY: as above.
    let send = unsafe { send_wr(qp, wr) }?;
    if !matches!(send.op, braid::SendOp::Send { .. }) || to.remote_qpn > numbers::MAX_NUMBER {
        return Err(Errno::INVALID);
    }
    // SAFETY: both members of the union are plain bytes.
    let source = unsafe { ah.source.raw };
    let peer = Peer::new(&ah.gid, to.remote_qpn);
    // SAFETY: as above.
    let bytes = unsafe { gather(qp, datagrams, wr, (&source, &peer.gid)) }?;
    // A controlled Q_Key stands for the queue pair's own (IBTA vol. 1, 10.2.5).
    let is_controlled = to.remote_qkey & CONTROLLED_Q_KEY != 0;
    let key = if is_controlled { qp.q_key() } else { to.remote_qkey };
    let from = Peer { gid: source, number: qp.number };
    let hello = Hello { from, to: peer, key: Some(key) };
    let destination = destination(handle, datagrams, &hello, key)?;
    let signalled = send.signalled;
    qp.places.take(signalled)?;
    let datagram = OutgoingDatagram { wr: send, bytes, traffic_class: ah.traffic_class };
    let sent = match destination {
        Destination::Flow(flow) => flow.send(datagram),
        Destination::Roce(route) => route.send(&qp.queues, (peer, key), &datagram),
    };
    sent.inspect_err(|_| qp.places.give_back(signalled))
}

/// The way of datagrams to a destination.
enum Destination {
    Flow(Arc<Flow>),
    Roce(RoceRoute),
}

/// Copies the GRH and the payload.
unsafe fn gather(
    qp: &QueuePair,
    datagrams: &Datagrams,
    wr: &ibv_send_wr,
    (from, to): (&[u8; 16], &[u8; 16]),
) -> Result<Vec<u8>, Errno> {
    // SAFETY: by the caller's promise.
    let pieces = unsafe { pieces(wr.sg_list, wr.num_sge, qp.queues.limits.sge) }?;
    let len = pieces.clone().map(|piece| piece.len as usize).sum::<usize>();
    if len > MAX_DATAGRAM {
        return Err(Errno::INVALID);
    }
    let mut bytes = Vec::with_capacity(GRH_LEN + len);
    bytes.extend_from_slice(&grh::encode(from, to, len));
    for piece in pieces {
        let mut at = piece.addr;
        if !is_inline(wr) {
            let checked = datagrams.domain.engine.check(engine_sge(piece), braid::Access::NONE);
            at = checked.map_err(|_| Errno::INVALID)?;
        }
        let (start, len) = (bytes.len(), piece.len as usize);
        bytes.resize(start + len, 0);
        // SAFETY: the memory is registered, or else the program promises that it can be read.
        unsafe {
            std::ptr::copy_nonoverlapping(at as *const u8, bytes[start..].as_mut_ptr(), len);
        }
    }
    Ok(bytes)
}

/// The way to a destination. This sets up a flow if there is none, or if the last one has ended.
/// Only one GID of the device leads to a destination, so the flow does not depend on the source.
fn destination(
    handle: &Qp,
    datagrams: &Datagrams,
    hello: &Hello,
    key: u32,
) -> Result<Destination, Errno> {
    let qp = &handle.shared;
    let mut flows = datagrams.flows();
    if let Some(route) = flows.roce.known(&hello.to) {
        return Ok(Destination::Roce(route));
    }
    let known = flows.outgoing.get(&(hello.to, key));
    if let Some(flow) = known.filter(|flow| !flow.has_ended()) {
        return Ok(Destination::Flow(flow.clone()));
    }
    if qp.is_surely_roce(&hello.to) {
        return Ok(Destination::Roce(qp.roce_route(datagrams, &mut flows.roce, &hello.to)));
    }
    flows.sort_out();
    let engine = datagrams.engine_qp(&qp.queues)?;
    qp.running.routes.set(engine.number(), Route::Outgoing { number: qp.number });
    let flow = Arc::new(Flow::new(engine, (hello.to, key), &qp.queues));
    handle.registry.flows.enter(&flow);
    flows.outgoing.insert((hello.to, key), flow.clone());
    drop(flows);
    connect(qp, &flow, hello);
    Ok(Destination::Flow(flow))
}

fn connect(qp: &QueuePair, flow: &Arc<Flow>, hello: &Hello) {
    let Some(to) = numbers::address(&hello.to) else { return flow.end() };
    match flow.engine.begin_connect(to, &hello.encode(), CONNECT_TIMEOUT) {
        Ok(attempt) => qp.running.send_control(ControlMessage::Flow(flow.id(), attempt)),
        Err(error) => {
            tracing::debug!(qp = qp.number, %to, %error, "datagrams are lost");
            flow.end();
        }
    }
}
