//! An attempt to connect that nobody waits for.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use super::shared::QpShared;
use crate::connect::{ConnectError, Outcome};
use crate::inner::EngineInner;

/// An attempt to connect, see [`crate::QueuePair::begin_connect`]. Its descriptor ([`AsFd`])
/// becomes readable once it has ended, and stays so. Dropping it gives the attempt up.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
/// # let (a, b) = (pd.create_qp(QpOptions::new(&cq, &cq))?, pd.create_qp(QpOptions::new(&cq, &cq))?);
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
    /// The attempt's number.
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

    /// How it has ended, as [`crate::QueuePair::connect`] returns it; `None`: it has not, or this
    /// was asked before. Does not wait; where the application drives the engine, this runs it once.
    pub fn result(&self) -> Option<Result<Vec<u8>, ConnectError>> {
        self.engine.progress_if_application();
        self.outcome.take()
    }

    /// Whom it is to reach.
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
