//! A peer whose host says that nobody receives at its port: its process has ended, or a firewall
//! says so of a few paths, or somebody has forged the message (ICMP port unreachable).
//!
//! The message alone ends nothing. The peer is asked at once, by a path and by the receiving port,
//! several times. It is given up if it stays silent for two round trips, at least 150 ms, which are
//! far less than the time that a silent peer has otherwise. Any packet of the peer ends the doubt.
//! TCP ends such a connection at the message itself (RFC 5927 says what follows from that).

use std::time::Duration;

use braid_lb::Rails;
use braid_wire::Time;

use super::liveness::{Complaint, Doubt, Ways};
use super::members::Endpoint;
use crate::patience::unanswered_for;
use crate::{Egress, EndCause};

/// Times that the peer is asked in a doubt.
const STEPS: u32 = 4;

/// A path that has carried a packet so short a time ago is refused by no firewall.
const CARRIES: Duration = Duration::from_secs(1);

impl Endpoint {
    /// The peer's host says that nobody receives at its port (ICMP port unreachable), of a packet
    /// that left by that port. The peer is asked for a sign of life at once, at most once per
    /// [`crate::EndpointConfig::ping_interval`] unless it is silent. If it stays silent for two
    /// round trips, at least 150 ms, all queue pairs end with [`EndCause::PeerGone`]. Any packet
    /// that comes from the peer makes up for any number of these messages, so whoever forges them
    /// gains nothing.
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

    /// Whether the peer has seemed silent since the last call. The driver then looks for what hosts
    /// have said of packets that it has sent, see [`Endpoint::on_unreachable`]. Call it after
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

    /// Asks again, or gives the peer up.
    pub(super) fn check_doubt(&mut self, now: Time) {
        let Some(doubt) = self.liveness.doubt.as_mut().filter(|doubt| doubt.step_at <= now) else {
            return;
        };
        if !self.liveness.silence.is_doubted {
            self.liveness.doubt = None;
            return;
        }
        // Who did not run did not listen: an answer may be there.
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
        // Otherwise the peer has as much time as any that is silent.
        if self.liveness.silence.complaint == Complaint::OfPeer {
            self.give_up_peer(EndCause::PeerGone);
        }
    }

    /// A long round trip to the peer, also when there was none of late.
    pub(super) fn usual_round_trip(&self, now: Time) -> Duration {
        let asker = self.liveness.ring.first();
        let member = asker.and_then(|index| self.members[index as usize].as_ref());
        let usual = member.map_or(Duration::ZERO, |member| member.qp.usual_round_trip());
        self.round_trips.get(now).max(usual)
    }
}
