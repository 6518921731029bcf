//! The service thread. It accepts peers, takes notifications before receives run out, and
//! continues transfers that are longer than the engine's queue. It sleeps otherwise.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use braid::{AsyncEvent, Listener, spawn_without_signals};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::connection::Connection;
use crate::core::Core;

/// Starts the thread. It ends when [`Core::stop`] is called.
pub(crate) fn start(core: Arc<Core>, listener: Listener) -> io::Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name("braid-nixl".to_owned());
    spawn_without_signals(thread, move || {
        while !core.is_stopping() {
            if let Err(error) = turn(&core, &listener) {
                tracing::error!("the service thread of the NIXL backend has to wait: {error}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    })
}

/// Waits for something to do, and does it.
fn turn(core: &Core, listener: &Listener) -> io::Result<()> {
    let backlog: Vec<Arc<Connection>> = core.connections_with_backlog();
    let awaited: Vec<_> =
        backlog.iter().map(|connection| connection.awaited()).collect::<io::Result<_>>()?;
    let events = core.engine().event_fd()?;
    let fixed = [core.wake(), listener.as_fd(), events];
    let all = fixed.into_iter().chain(awaited.iter().flatten().map(AsFd::as_fd));
    let mut polled: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    match poll(&mut polled, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    core.clear_wake();
    while let Some(request) = listener.accept(Duration::ZERO) {
        core.accept(request);
    }
    while let Some(event) = core.engine().poll_event() {
        match event {
            AsyncEvent::QpEnded { qp, .. } => core.on_end(qp),
            AsyncEvent::ReceivesLow { .. } => core.on_receives_low(),
            AsyncEvent::Missed(_) => core.on_missed_events(),
            _ => {}
        }
    }
    backlog.iter().for_each(|connection| connection.poll());
    Ok(())
}
