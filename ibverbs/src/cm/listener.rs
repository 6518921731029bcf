//! Listening.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use braid::Security;

use super::addresses::to_c;
use super::connect::run;
use super::connection::Connection;
use super::exchange;
use super::hearing::Hearing;
use super::id::{Id, Shared, rdma_destroy_id};
use super::message::{Kind, Message};
use super::port_space::PortSpace;
use super::structs::rdma_cm_id;
use crate::errno;
use crate::gid;
use crate::settings::Settings;

/// How long who has connected may be silent before it has said why.
const PATIENCE: Duration = Duration::from_secs(5);

/// What connections that come inherit from their listener.
#[derive(Clone)]
struct Heritage {
    context: *mut c_void,
    ps: PortSpace,
    security: Option<Arc<Security>>,
}

// SAFETY: the pointers are only handed on to the program.
unsafe impl Send for Heritage {}

/// Connections that wait to be accepted, which takes no time.
const BACKLOG: c_int = 1024;

/// Takes connections from now on: `RDMA_CM_EVENT_CONNECT_REQUEST` for each. -1 with `errno`: `EADDRINUSE` where another listens at the port,
/// `EINVAL` where it has no address of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, _backlog: c_int) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Id::of(id) }?;
        let security = Settings::obey()?.engine.security.map(Arc::new);
        let listener = object.shared.connection().listen(BACKLOG)?;
        let (context, ps) = (object.base.context, PortSpace::of(object.base.ps)?);
        let heritage = Heritage { context, ps, security };
        let shared = object.shared.clone();
        run("braid-cm-listen", move || accept(&listener, &shared, &heritage))?;
        Ok(0)
    })
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, heritage: &Heritage) {
    let hearing = Arc::new(Hearing::default());
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                let stream = Arc::new(stream);
                hearing.begin(&stream);
                let (shared, heritage) = (shared.clone(), heritage.clone());
                let (of_thread, in_thread) = (stream.clone(), hearing.clone());
                let hear = move || hear(of_thread, from, &in_thread, &shared, &heritage);
                if run("braid-cm", hear).is_err() {
                    hearing.end(&stream); // who has connected sees the end of the connection
                }
            }
            Err(_) if matches!(*shared.connection(), Connection::Listening(_)) => {
                // Such as a limit of open files: it passes.
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return,
        }
    }
}

/// A listener at all addresses of IPv6 takes IPv4 as well, mapped into IPv6, which no device has.
fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// Makes an identifier of who has said what it wants.
fn hear(
    stream: Arc<TcpStream>,
    from: SocketAddr,
    hearing: &Hearing,
    shared: &Shared,
    heritage: &Heritage,
) {
    let _ = stream.set_nodelay(true);
    let limit = stream.set_read_timeout(Some(PATIENCE));
    let heard = limit.and_then(|()| exchange::hear(&stream, heritage.security.as_deref()));
    let has_place = hearing.end(&stream);
    let (Ok((request, reply)), Ok(local), true) = (heard, stream.local_addr(), has_place) else {
        return;
    };
    if request.kind != Kind::Request || stream.set_read_timeout(None).is_err() {
        return;
    }
    if request.purpose.qp_type() != heritage.ps.qp_type() {
        // It hears it, or is gone.
        let _ = reply.give(&stream, &Message::unserved(request.purpose));
        return;
    }
    let (from, local) = (canonical(from), canonical(local));
    // Without a channel, who has connected sees the end of the connection.
    let Some(Ok(target)) = shared.target().map(|target| target.of_connection()) else { return };
    let id = Id::make(target, heritage.context, heritage.ps);
    // SAFETY: it has just been made.
    let is_known = unsafe { Id::of(id) }.is_ok_and(|object| {
        object.base.route.addr.dst_addr = to_c(from);
        object.base.route.addr.ibaddr.dgid = gid::of(from.ip());
        object.shared.wire_up.hear(&request);
        *object.shared.connection() = Connection::Asked(stream, request.queue_pair, reply);
        object.bind_to(local).is_ok() && shared.arrived(id, request)
    });
    if !is_known {
        // SAFETY: as above, and nobody else knows it.
        unsafe { rdma_destroy_id(id) };
    }
}
