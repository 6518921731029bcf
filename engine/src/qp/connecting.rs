//! An attempt to connect that runs in the background.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use super::shared::QpShared;
use crate::connect::{ConnectError, Outcome};
use crate::inner::EngineInner;

/// An attempt to connect, begun with [`crate::QueuePair::begin_connect`]. Its descriptor ([`AsFd`])
/// is readable from the end of the attempt on. Dropping the attempt cancels it.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// # let options = QpOptions::new(&cq, &cq);
/// # let (a, b) = (pd.create_qp(options.clone())?, pd.create_qp(options)?);
/// let listener = engine.listen(1)?;
/// let attempt = a.begin_connect(engine.local_addr(), b"who", PATIENCE)?;
///
/// // One thread can be both ends, because neither waits for the other.
/// let request = listener.accept(PATIENCE).ok_or("nobody came")?;
/// assert_eq!(request.private_data(), b"who");
/// request.accept(&b, b"me")?;
///
/// let answer = loop {
///     // A program that has other things to do waits for `attempt.as_fd()` among its descriptors.
///     match attempt.result() {
///         Some(result) => break result?,
///         None => std::thread::yield_now(),
///     }
/// };
/// assert_eq!(answer, b"me");
/// # Ok(())
/// # }
/// ```
pub struct Connecting {
    engine: Arc<EngineInner>,
    qp: Arc<QpShared>,
    worker: usize,
    /// The number of the attempt.
    attempt: u64,
    addr: SocketAddr,
    outcome: Arc<Outcome>,
}

impl Connecting {
    pub(super) fn new(
        engine: Arc<EngineInner>,
        qp: Arc<QpShared>,
        worker: usize,
        attempt: u64,
        addr: SocketAddr,
        outcome: Arc<Outcome>,
    ) -> Self {
        Connecting { engine, qp, worker, attempt, addr, outcome }
    }

    /// Returns the outcome once, as [`crate::QueuePair::connect`] returns it. `None`: the attempt
    /// goes on, or the outcome was returned before. The call does not block. If the application
    /// drives the engine, the call runs the engine once.
    pub fn result(&self) -> Option<Result<Vec<u8>, ConnectError>> {
        self.engine.progress_if_application();
        self.outcome.take()
    }

    /// Whether the peer has answered at all. It may take its time to accept or reject.
    pub fn is_answered(&self) -> bool {
        self.engine.worker(self.worker).control().is_answered(self.qp.id)
    }

    /// The address of the peer.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outcome.event().expect("it was made with one").as_fd()
    }
}

impl AsRawFd for Connecting {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if self.engine.is_here() {
            self.engine.worker(self.worker).control().give_up_connect(self.qp.id, self.attempt);
        }
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("qp", &self.qp.id).field("addr", &self.addr).finish()
    }
}
