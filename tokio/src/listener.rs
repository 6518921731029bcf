//! Connections of peers.

use std::net::SocketAddr;
use std::time::Duration;

use braid::ConnectionRequest;
use tokio::io::unix::AsyncFd;

use crate::Error;
use crate::watch::watch;

/// A listener whose connection requests are awaited.
#[derive(Debug)]
pub struct Listener(AsyncFd<braid::Listener>);

impl Listener {
    /// Watches a listener with the runtime of this task.
    ///
    /// # Errors
    /// [`Error::NoRuntime`], [`Error::Watch`].
    pub fn new(listener: braid::Listener) -> Result<Self, Error> {
        Ok(Listener(watch(listener)?))
    }

    /// The address that peers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.get_ref().local_addr()
    }

    /// Waits for the next connection request, for [`crate::Connection::accept`]. Dropping the
    /// future loses no request.
    ///
    /// # Errors
    /// [`Error::Watch`]: the runtime is shutting down.
    pub async fn accept(&self) -> Result<ConnectionRequest, Error> {
        loop {
            if let Some(request) = self.0.get_ref().accept(Duration::ZERO) {
                return Ok(request);
            }
            self.0.readable().await.map_err(Error::Watch)?.clear_ready();
        }
    }
}
