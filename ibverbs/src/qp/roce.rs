//! Queue pairs whose peers are RNICs or the kernel's Soft-RoCE: these speak plain RoCEv2.
//!
//! The transition to RTR decides. The peer's number tells at once if it belongs to no Braid
//! process; otherwise a probe finds out, which takes three seconds at most. After RTR the queue
//! pair receives, so the peer may send as soon as the program tells it.

use std::net::IpAddr;
use std::time::Duration;

use braid::{QpId, RoceMtu, RoceRemote};
use braid_verbs::abi::ibv_gid;

use super::attributes::Attributes;
use super::queue_pair::QueuePair;
use crate::connect::probe;
use crate::errno::Errno;
use crate::gid;
use crate::numbers;
use crate::peer::Peer;
use crate::settings::RoceUse;

/// The knowledge about the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OtherEnd {
    Braid,
    /// No answer, or `BRAID_ROCE=always`.
    Roce,
    /// Its number belongs to no Braid process, or rdma_cm has found out.
    CertainlyRoce,
}

impl QueuePair {
    /// Connects to `theirs` over plain RoCEv2 unless it is Braid. Returns whether it did.
    ///
    /// # Errors
    /// The log names the reason and the remedy.
    pub(super) fn connect_roce(
        &self,
        new: &Attributes,
        (ours, theirs): (Peer, Peer),
    ) -> Result<bool, Errno> {
        let end = self.other_end(&ours, &theirs);
        let Some(to) = gid::address(&ibv_gid { raw: theirs.gid }) else { return Ok(false) };
        if end == OtherEnd::Braid {
            return Ok(false);
        }
        if !self.service.is_reliable() {
            tracing::error!(qp = self.number, gid = %to, remote = theirs.number,
                "the peer is not Braid, and UC does not speak RoCEv2: take RC, or braid-run there, too");
            return Err(Errno::UNSUPPORTED);
        }
        let remote = self.roce_remote(new, to, theirs.number);
        match self.engine.connect_roce(&remote) {
            Ok(()) => {}
            Err(error) if end == OtherEnd::CertainlyRoce || self.needs_roce() => {
                tracing::error!(qp = self.number, %error, "no connection over RoCEv2");
                return Err(Errno::from(&error));
            }
            Err(error) => {
                tracing::warn!(qp = self.number, %error,
                    "the peer does not answer as Braid, and is out of reach over RoCEv2");
                return Ok(false);
            }
        }
        let mut connection = self.connection();
        connection.ends = Some((ours, theirs));
        (connection.is_connected, connection.is_roce) = (true, true);
        Ok(true)
    }

    /// Whether the program wants RoCEv2 alone.
    pub(crate) fn needs_roce(&self) -> bool {
        self.running.settings.roce == RoceUse::Always
    }

    fn other_end(&self, ours: &Peer, theirs: &Peer) -> OtherEnd {
        if self.connection().is_roce_expected {
            return OtherEnd::CertainlyRoce;
        }
        let settings = &self.running.settings;
        match settings.roce {
            RoceUse::Never => return OtherEnd::Braid,
            RoceUse::Always if self.service.is_reliable() && ours != theirs => {
                return OtherEnd::Roce;
            }
            RoceUse::Always | RoceUse::Auto => {}
        }
        let Some(at) = numbers::address(theirs) else { return OtherEnd::CertainlyRoce };
        if !settings.speaks_roce() {
            return OtherEnd::Braid;
        }
        let own = gid::address(&ibv_gid { raw: ours.gid });
        let is_braid = own.is_none_or(|own| {
            !self.service.is_reliable() || probe::is_braid(&self.running, own, at)
        });
        if is_braid { OtherEnd::Braid } else { OtherEnd::Roce }
    }

    /// The peer's end, with the attributes set so far.
    fn roce_remote(&self, new: &Attributes, gid: IpAddr, number: u32) -> RoceRemote {
        let given = &new.given;
        let mut remote = RoceRemote::new(gid, QpId::new(number));
        remote.own_qp = Some(QpId::new(self.number));
        (remote.recv_psn, remote.send_psn) = (given.rq_psn, given.sq_psn);
        remote.mtu = RoceMtu::from_code(given.path_mtu);
        remote.max_rd_atomic = given.max_rd_atomic;
        remote.ack_timeout = match given.timeout & 31 {
            0 => Duration::MAX,
            exponent => Duration::from_nanos(4096 << exponent),
        };
        remote.retry_count = given.retry_cnt;
        remote.dcqcn = self.running.settings.roce_dcqcn;
        remote
    }

    /// Sets what a queue pair that speaks plain RoCEv2 sends with, in the transition to RTS.
    pub(super) fn set_roce_sending(&self, new: &Attributes) -> Result<(), Errno> {
        let ends = {
            let connection = self.connection();
            connection.ends.filter(|_| connection.is_roce)
        };
        let Some((_, theirs)) = ends else { return Ok(()) };
        let Some(to) = gid::address(&ibv_gid { raw: theirs.gid }) else { return Ok(()) };
        let remote = self.roce_remote(new, to, theirs.number);
        self.engine.set_roce_sending(&remote).map_err(|error| {
            tracing::error!(qp = self.number, %error, "no sending over RoCEv2");
            Errno::from(&error)
        })
    }

    /// Whether the queue pair speaks plain RoCEv2.
    pub(super) fn is_roce(&self) -> bool {
        self.connection().is_roce
    }
}
