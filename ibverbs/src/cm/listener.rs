//! Listening: `rdma_listen`.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use super::addresses::to_c;
use super::connection::Connection;
use super::exchange;
use super::half_open::HalfOpenLinks;
use super::id::{Id, IdShared, rdma_destroy_id};
use super::inherited::Inherited;
use super::message::{CmMessage, MessageKind};
use super::port_space::PortSpace;
use super::roce::listening::RoceListener;
use super::structs::rdma_cm_id;
use super::threads::run;
use crate::errno;
use crate::gid;
use crate::messages::{Link, Listener};
use crate::settings::{RoceUse, Settings};

/// The time in which a connecting end has to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Listens. The program gets `RDMA_CM_EVENT_CONNECT_REQUEST` for each connection. -1 with `errno`:
/// `EADDRINUSE` if another listener has the port, `EINVAL` if the identifier has no address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, _backlog: c_int) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        let settings = Settings::load()?;
        let needs_roce = settings.roce == RoceUse::Always;
        let speaks_roce = settings.speaks_roce();
        let security = settings.engine.security.map(Arc::new);
        let port = object.shared.port();
        let listener = object.shared.connection().listen(port.as_deref())?;
        let (context, ps) = (object.base.context, PortSpace::of(object.base.ps)?);
        let inherited = Inherited { context, ps, security };
        let shared = object.shared.clone();
        if speaks_roce
            && matches!(ps, PortSpace::Tcp | PortSpace::Udp)
            && let Some(bound) = object.source()
        {
            let listening = RoceListener::new(&shared, inherited.clone(), bound).listen(needs_roce);
            let services = listening.inspect_err(|_| shared.connection().close())?;
            shared.connection().serve_roce(services);
        }
        run("braid-cm-listen", move || accept(&listener, &shared, &inherited))?;
        Ok(0)
    })
}

fn accept(listener: &Listener, shared: &Arc<IdShared>, inherited: &Inherited) {
    let half_open = Arc::new(HalfOpenLinks::default());
    while let Some(link) = listener.accept() {
        let link = Arc::new(link);
        half_open.begin(&link);
        let (shared, inherited) = (shared.clone(), inherited.clone());
        let (of_thread, in_thread) = (link.clone(), half_open.clone());
        let take = move || take_request(of_thread, &in_thread, &shared, &inherited);
        if run("braid-cm", take).is_err() {
            half_open.end(&link); // the connecting end sees the end of the link
        }
    }
}

/// Waits for the request of a connecting end, and makes an identifier for it.
fn take_request(
    link: Arc<Link>,
    half_open: &HalfOpenLinks,
    shared: &IdShared,
    inherited: &Inherited,
) {
    link.set_limit(Some(REQUEST_TIMEOUT));
    let received = exchange::recv_request(&link, inherited.security.as_deref());
    let has_place = half_open.end(&link);
    let (Ok((request, reply)), true) = (received, has_place) else { return link.close() };
    link.set_limit(None);
    if request.kind != MessageKind::Request {
        return link.close();
    }
    if request.purpose.qp_type() != inherited.ps.qp_type() {
        // The other end receives this, or is gone.
        let _ = reply.send(&link, &CmMessage::unserved(request.purpose));
        return link.close();
    }
    let (from, local) = (link.peer_addr(), link.local_addr());
    // Without a channel, the connecting end sees the end of the link.
    let Some(Ok(target)) = shared.target().map(|target| target.of_connection()) else {
        return link.close();
    };
    let id = Id::make(target, inherited.context, inherited.ps);
    // SAFETY: the identifier has just been made.
    let is_known = unsafe { Id::of(id) }.is_ok_and(|object| {
        object.base.route.addr.dst_addr = to_c(from);
        object.base.route.addr.ibaddr.dgid = gid::of(from.ip());
        object.shared.wire_up.set_peer(&request);
        *object.shared.connection() = Connection::Requested(link, reply);
        object.bind_to(local).is_ok() && shared.report_request(id, request)
    });
    if !is_known {
        // SAFETY: as above; the program does not know the identifier.
        unsafe { rdma_destroy_id(id) };
    }
}
