//! Handling of ICMP port unreachable. The peer's process has ended, or a firewall rejects a few
//! paths, or the message is forged.
//!
//! The message alone ends nothing. The endpoint probes the peer at once, several times, from the
//! port of a path and from the receiving port. The peer is given up if it stays silent for two
//! round trips, at least 150 ms, which is far less than a silent peer gets otherwise. Any packet
//! from the peer ends the doubt. TCP ends such a connection at the message itself (RFC 5927
//! describes the attacks that this permits).

use std::time::Duration;

use braid_lb::Rails;
use braid_wire::Time;

use super::liveness::{Complaint, Doubt, Ways};
use super::members::Endpoint;
use crate::patience::unanswered_for;
use crate::{Egress, EndCause};

/// Number of rounds of PINGs in a doubt.
const STEPS: u32 = 4;

/// A path that has carried a packet within this time is taken not to be rejected by a firewall.
const CARRIES: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Handles an ICMP port unreachable from the peer's host, for a packet that left from
    /// `left_by`. The peer is probed at once, but at most once per
    /// [`crate::EndpointConfig::ping_interval`] unless it is silent. If it stays silent for two
    /// round trips, at least 150 ms, all queue pairs end with [`EndCause::PeerGone`]. One packet
    /// from the peer cancels any number of these messages, so forging them gains nothing.
    pub fn on_unreachable(&mut self, now: Time, left_by: Egress, rails: &Rails) {
        if self.liveness.ring.first().is_none() {
            return;
        }
        let arrival = left_by.path().map(|path| rails.last_arrival(path));
        let complaint = match arrival {
            Some(last) if last.is_none_or(|last| now - last > CARRIES) => Complaint::OfPath,
            _ => Complaint::OfPeer,
        };
        let liveness = &mut self.liveness;
        liveness.silence.complaint = liveness.silence.complaint.max(complaint);
        if liveness.doubt.is_some() {
            return;
        }
        if now >= liveness.trusted_until {
            self.begin_doubt(now);
        } else {
            liveness.look_at = liveness.look_at.min(liveness.trusted_until);
        }
        self.liveness.rearm();
    }

    /// Whether the peer has seemed silent since the last call. If so, the driver reads the ICMP
    /// errors for the packets that it has sent, see [`Endpoint::on_unreachable`]. Call this after
    /// [`Endpoint::on_timeout`].
    pub fn poll_silence(&mut self) -> bool {
        std::mem::take(&mut self.liveness.is_silent)
    }

    pub(super) fn begin_doubt(&mut self, now: Time) {
        let wait = unanswered_for(self.usual_round_trip(now).max(self.liveness.slowest));
        let step = wait / STEPS;
        let (ends_at, step_at) = (now + wait, now + step);
        self.liveness.doubt = Some(Doubt { ends_at, step_at, step, is_prolonged: false });
        self.liveness.trusted_until = now + self.config.ping_interval.max(wait);
        self.liveness.silence.is_doubted = true;
        self.ask(Ways::Both);
    }

    /// Sends the next PINGs of a doubt, or gives the peer up.
    pub(super) fn check_doubt(&mut self, now: Time) {
        let Some(doubt) = self.liveness.doubt.as_mut().filter(|doubt| doubt.step_at <= now) else {
            return;
        };
        if !self.liveness.silence.is_doubted {
            self.liveness.doubt = None;
            return;
        }
        // While the driver did not run, it did not receive: an answer may be waiting.
        if now - doubt.step_at >= doubt.step && !doubt.is_prolonged {
            doubt.is_prolonged = true;
            doubt.ends_at = doubt.ends_at.max(now + 2 * doubt.step);
        }
        if now < doubt.ends_at {
            doubt.step_at = (now + doubt.step).min(doubt.ends_at);
            self.liveness.is_silent = true;
            self.ask(Ways::Both);
            return;
        }
        self.liveness.doubt = None;
        // After a complaint about a path only, the peer has as much time as any silent peer.
        if self.liveness.silence.complaint == Complaint::OfPeer {
            self.give_up_peer(EndCause::PeerGone);
        }
    }

    /// Returns a long round-trip time to the peer, even if there is no recent sample.
    pub(super) fn usual_round_trip(&self, now: Time) -> Duration {
        let asker = self.liveness.ring.first();
        let member = asker.and_then(|index| self.members[index as usize].as_ref());
        let usual = member.map_or(Duration::ZERO, |member| member.qp.usual_round_trip());
        self.round_trips.get(now).max(usual)
    }
}
