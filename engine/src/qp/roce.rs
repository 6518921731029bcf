//! Connecting a queue pair over plain RoCEv2.

use super::handle::QueuePair;
use crate::roce::{RoceError, RoceRemote};

impl QueuePair {
    /// Connects to a peer that speaks plain RoCEv2: an RNIC, the kernel's rxe, or another engine.
    /// No packet is exchanged; the peer is told this end's values by other means. Receives have to
    /// be posted before the peer sends, see [`QueuePair::modify`].
    ///
    /// RoCEv2 protects nothing. Whoever sends packets with the peer's address and guesses the PSN
    /// and the rkey writes to memory that the peer may write to.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use braid::{Access, Engine, EngineConfig, QpOptions, RoceRemote, Status, wr};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let bind = "127.0.0.1:0".parse()?; // both ends are Braid, so any port will do
    /// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
    /// # let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64)?);
    /// # let memory = pd.alloc_mr(64, Access::ALL)?;
    /// let (a, b) =
    ///     (pd.create_qp(QpOptions::new(&cq, &cq))?, pd.create_qp(QpOptions::new(&cq, &cq))?);
    /// for (own, peer) in [(&a, &b), (&b, &a)] {
    ///     let mut remote = RoceRemote::new(engine.local_addr().ip(), peer.number());
    ///     remote.port = engine.local_addr().port();
    ///     own.connect_roce(&remote)?;
    /// }
    /// memory.write_at(0, b"plain RoCEv2")?;
    /// a.post_send(wr::write(1, [memory.slice(..12)?], memory.remote().at(32)))?;
    /// for done in cq.wait(Duration::from_secs(10))? {
    ///     assert_eq!(done.status, Status::Success);
    /// }
    /// let mut placed = [0; 12];
    /// memory.read_at(32, &mut placed)?;
    /// assert_eq!(&placed, b"plain RoCEv2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`RoceError`]. The queue pair is unchanged, or in INIT.
    pub fn connect_roce(&self, remote: &RoceRemote) -> Result<(), RoceError> {
        self.worker().connect_roce(self.index(), remote)
    }

    /// Replaces the parameters of sending of a RoCEv2 connection: `send_psn`, `max_rd_atomic`,
    /// `ack_timeout`, `retry_count` and `window` of `remote`. Programs for verbs name them in the
    /// transition to RTS, when the queue pair receives already.
    ///
    /// # Errors
    /// [`RoceError::Sending`]: the queue pair has no RoCEv2 connection, or a work request was
    /// posted to it.
    pub fn set_roce_sending(&self, remote: &RoceRemote) -> Result<(), RoceError> {
        self.worker().control().set_roce_sending(self.index(), remote)
    }
}
