//! The largest datagram that reaches the peer: packetization layer path MTU discovery for datagram
//! transports (DPLPMTUD, RFC 8899). Set-up has proved [`BASE_DATAGRAM`]. A larger size is used only
//! once a probe of that size was answered. ICMP messages are only hints for the next size to try.
//!
//! The search proceeds in rounds for one size. A round sends a probe of that size, and then small
//! probes, up to [`TRIES`] tries in all. Once a small one was answered, up to [`TRIES`] probes of
//! the size are sent. The small probes show whether only that size fails, or the whole path, or the
//! peer is slow. In the latter case, more long probes would only fill its receive buffer. The
//! search halves the interval between the sizes that pass and those that do not.
//!
//! A time-out of a queue pair starts a round for the size in use, which begins with the small
//! probes. A peer that does not run is the likelier cause, and two short packets suffice to check
//! that. So a path whose MTU has shrunk is found while small packets still pass (RFC 8899, section
//! 4.3). A retransmission of a packet that was acknowledged starts such a round, too: the peer has
//! timed out, and perhaps large packets of this end are lost.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{BASE_DATAGRAM, DATA_HEADER_LEN, Probe, ProbeKind, QpId, Time, Token};

use super::sent_probes::{SentProbes, Way};
use crate::EventKind;

/// Number of probes of a size. RFC 8899 has three (MAX_PROBES). One more makes it unlikely that
/// congestion, which drops long packets first, is mistaken for a smaller MTU.
const TRIES: u32 = 4;
/// Time that the first try of a round waits for an answer. The second waits twice as long, further
/// ones four times as long, and each at least for [`ROUND_TRIPS`]. Later answers also count.
const PATIENCE: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 2;
/// Resolution of the search: sizes that differ by less are not distinguished.
const STEP: u16 = 16;
/// Time after which a larger size is tried again when the search has ended below the limit of the
/// first hop. RFC 8899 has ten minutes (PMTU_RAISE_TIMER), to spare routers of the Internet. In a
/// data centre a route that was down is back in seconds, and the search costs about fifty packets.
const RAISE: Duration = Duration::from_secs(10);
/// Time after which a peer that has answered nothing is probed again. It doubles each time, up to
/// [`RAISE`].
const SILENCE: Duration = Duration::from_millis(500);
/// Time that the small probes of a round wait for an answer if a time-out has started the round.
const HEARING: Duration = Duration::from_millis(150);
/// Number of round trips that a try waits for an answer: PROBE_TIMER is longer than one (RFC 8899,
/// section 5.1.1). If many processes share few processors, a round trip takes seconds. Probes
/// repeated before the answer can arrive would slow all of them down.
const ROUND_TRIPS: u32 = 2;
/// Least time after which the ports of paths, from which nothing was answered, are reported as
/// blocked. A peer that is only slow answers within it, or at least before [`ROUND_TRIPS`].
const CERTAINTY: Duration = Duration::from_millis(250);
/// Time for which further time-outs, of this end and the peer, do not start another round.
const QUIET: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
struct ProbeRound {
    size: u16,
    /// Whether a time-out has started the round.
    is_suspicion: bool,
    /// Number of tries, and number of probes of the size itself.
    tries: u32,
    asked: u32,
    /// Time of the last try, and time of the next try or of the round's end.
    tried_at: Time,
    until: Time,
    /// Whether small probes of this round were answered, by the port that they left from.
    base_by_path: bool,
    base_by_port: bool,
}

impl ProbeRound {
    /// Whether any small probe was answered: the peer is alive and reachable.
    fn is_answered(&self) -> bool {
        self.base_by_path || self.base_by_port
    }

    fn is_over(&self) -> bool {
        match self.is_answered() {
            true => self.asked >= TRIES,
            false => self.tries >= if self.is_suspicion { 1 } else { TRIES },
        }
    }
}

/// The path MTU of one rail. Sizes are those of packets, without the bytes that the driver adds.
///
/// Invariants: `base <= current < too_large`, and `current <= ceiling`.
#[derive(Debug)]
pub(in crate::endpoint) struct PathMtu {
    /// The size that set-up has proved to pass.
    base: u16,
    /// Bytes that the driver adds to each packet.
    envelope: u16,
    /// Size of the longest segments agreed on.
    ceiling: u16,
    /// The largest size known to pass (RFC 8899: PLPMTU).
    pub(in crate::endpoint) current: u16,
    /// The smallest size known not to pass; `ceiling` + 1: no such size is known.
    too_large: u32,
    /// The size that the host's route is said to carry; 0: not known.
    hint: u16,
    /// The ports of paths are blocked: everything leaves from the receiving port.
    pub(in crate::endpoint) port_only: bool,
    /// Time at which that becomes certain.
    certain_at: Time,
    /// The queue pairs were notified of that.
    pub(in crate::endpoint) reported_blocked: bool,
    /// The largest size that ever passed, and the size that passed when the last search ended.
    most: u16,
    settled: u16,
    round: Option<ProbeRound>,
    /// Time at which the next round begins.
    next_at: Time,
    quiet_until: Time,
    probes: SentProbes,
    /// Number of rounds in a row without any answer.
    silent: u32,
    /// Probes to send now.
    pub(in crate::endpoint) due: Vec<(u16, Way)>,
    /// Events for the queue pairs.
    pub(in crate::endpoint) news: VecDeque<EventKind>,
}

impl PathMtu {
    /// Creates the state of a rail. The driver adds `envelope` bytes to each packet.
    pub(in crate::endpoint) fn new(envelope: u16) -> Self {
        let base = BASE_DATAGRAM as u16 - envelope;
        PathMtu {
            base,
            envelope,
            ceiling: base,
            current: base,
            too_large: u32::from(base) + 1,
            hint: 0,
            port_only: false,
            certain_at: Time::ZERO,
            reported_blocked: false,
            most: 0,
            settled: 0,
            round: None,
            next_at: Time::FAR_FUTURE,
            quiet_until: Time::ZERO,
            probes: SentProbes::none(),
            silent: 0,
            due: Vec::new(),
            news: VecDeque::new(),
        }
    }

    /// Handles a new queue pair that could use segments with `payload` bytes.
    pub(in crate::endpoint) fn admit(&mut self, now: Time, payload: u16) {
        let longest = payload.saturating_add(DATA_HEADER_LEN as u16).max(self.base);
        if longest <= self.ceiling && !self.probes.is_empty() {
            return;
        }
        if self.too_large > self.ceiling.into() {
            self.too_large = u32::from(longest) + 1; // nothing larger was tried
        }
        self.ceiling = longest.max(self.ceiling);
        if self.round.is_none() {
            self.next_at = now;
        }
    }

    /// The largest datagram known to pass, in bytes, with the bytes that the driver adds.
    pub(in crate::endpoint) fn datagram(&self) -> u16 {
        self.current.saturating_add(self.envelope)
    }

    /// Takes the hint that a datagram of this many bytes passes.
    pub(in crate::endpoint) fn hint_datagram(&mut self, datagram: u16) {
        self.hint = datagram.saturating_sub(self.envelope);
    }

    /// The largest datagram that passes, and the largest that passed before or that the host's
    /// route carries, if that is more.
    pub(in crate::endpoint) fn shortfall(&self) -> Option<(u16, u16)> {
        let expected = self.most.max(self.hint.min(self.ceiling));
        let is_short = self.settled > 0 && self.settled.saturating_add(STEP) < expected;
        is_short.then(|| (self.settled + self.envelope, expected + self.envelope))
    }

    /// Payload bytes of the longest segment: a multiple of 8, so that no aligned word is split
    /// between segments.
    pub(in crate::endpoint) fn payload(&self) -> u16 {
        (self.current - DATA_HEADER_LEN as u16) & !7
    }

    pub(in crate::endpoint) fn next_timeout(&self) -> Time {
        self.round.map_or(self.next_at, |round| round.until)
    }

    /// Starts a round for the size in use because this end or the peer has timed out: segments may
    /// have become too large, or the ports of paths blocked. `longest`: the longest recent round
    /// trip.
    pub(in crate::endpoint) fn suspect(&mut self, now: Time, longest: Duration) {
        if self.round.is_some() || now < self.quiet_until {
            return;
        }
        self.quiet_until = now + QUIET;
        self.probes.on_round_trip(now, longest);
        self.begin_round(now, self.current, true);
    }

    /// Handles a rail that came into use because of a packet from the peer's receiving port.
    /// Everything leaves from this end's receiving port until a probe from the port of a path is
    /// answered. That probe leaves at once.
    pub(in crate::endpoint) fn suspect_paths(&mut self, now: Time) {
        if !self.port_only {
            self.avoid_paths(now, self.current);
        }
    }

    /// Sends everything from the receiving port, and begins a round there for a size.
    fn avoid_paths(&mut self, now: Time, size: u16) {
        self.port_only = true;
        self.certain_at = now + CERTAINTY.max(ROUND_TRIPS * self.probes.round_trip(now));
        self.begin(now, size);
    }

    fn begin(&mut self, now: Time, size: u16) {
        self.begin_round(now, size, false);
    }

    fn begin_round(&mut self, now: Time, size: u16, is_suspicion: bool) {
        self.round = Some(ProbeRound {
            size,
            is_suspicion,
            tries: 0,
            asked: 0,
            tried_at: now,
            until: now,
            base_by_path: false,
            base_by_port: false,
        });
        self.advance(now);
    }

    /// Begins a round, tries again or ends the round, if that is due. `longest`: the longest recent
    /// round trip. Returns whether the longest payload has changed.
    pub(in crate::endpoint) fn on_timeout(&mut self, now: Time, longest: Duration) -> bool {
        match &mut self.round {
            Some(round) if now < round.until => false,
            Some(round) if round.is_over() => {
                self.probes.on_round_trip(now, longest);
                round.until = round.tried_at + ROUND_TRIPS * self.probes.round_trip(now);
                let round = *round;
                now >= round.until && self.end(now, round)
            }
            Some(_) => {
                self.advance(now);
                false
            }
            None if now < self.next_at => false,
            None => {
                // A size that was too large may pass now.
                self.too_large = u32::from(self.ceiling) + 1;
                self.probes.ignore_answers();
                self.probes.on_round_trip(now, longest);
                self.begin(now, self.ceiling);
                false
            }
        }
    }

    fn advance(&mut self, now: Time) {
        let way = self.way();
        let Some(round) = &mut self.round else { return };
        self.due.clear();
        let is_first = round.tries == 0;
        if round.is_answered() || is_first && !round.is_suspicion {
            self.due.push((round.size, way));
            round.asked += 1;
        }
        if self.port_only {
            self.due.push((self.base, Way::Path)); // the block may be over
        }
        if !is_first || round.is_suspicion {
            if way == Way::Path && round.size > self.base {
                self.due.push((self.base, Way::Path));
            }
            self.due.push((self.base, Way::Port));
        }
        round.tried_at = now;
        let patience = match is_first && round.is_suspicion {
            true => HEARING,
            false => PATIENCE * (1 << round.tries.min(DOUBLINGS)),
        };
        round.until = now + patience.max(ROUND_TRIPS * self.probes.round_trip(now));
        round.tries += 1;
    }

    fn way(&self) -> Way {
        if self.port_only { Way::Port } else { Way::Path }
    }

    /// Ends a round in which no probe of the size was answered. Returns whether the longest payload
    /// has changed.
    fn end(&mut self, now: Time, round: ProbeRound) -> bool {
        self.round = None;
        let passes = if self.port_only { round.base_by_port } else { round.base_by_path };
        if passes && round.size > self.base {
            let before = self.current;
            self.too_large = self.too_large.min(round.size.into());
            if round.size <= self.current {
                self.current = self.base;
                self.probes.ignore_answers();
            }
            self.plan(now);
            return self.told(before);
        }
        if round.base_by_port && !self.port_only {
            self.avoid_paths(now, round.size);
        } else if self.current >= self.ceiling && !self.port_only {
            self.next_at = Time::FAR_FUTURE; // the next time-out probes again
        } else {
            self.next_at = now + (SILENCE * (1 << self.silent)).min(RAISE);
            self.silent = (self.silent + 1).min(8);
        }
        false
    }

    /// Plans the next round after one has ended.
    fn plan(&mut self, now: Time) {
        let (low, high) = (self.current, self.too_large);
        let is_found = low >= self.ceiling || u32::from(low) + u32::from(STEP) >= high;
        if is_found && self.port_only {
            if now >= self.certain_at {
                self.report_blocked(); // each round has probed a path, too
            } else {
                self.next_at = self.certain_at;
            }
        }
        if is_found {
            (self.most, self.settled) = (self.most.max(low), low);
        }
        if low >= self.ceiling && !self.port_only {
            self.next_at = Time::FAR_FUTURE;
        } else if is_found {
            let raise = now + RAISE;
            self.next_at = if self.next_at > now { self.next_at.min(raise) } else { raise };
        } else {
            let inside = |size: u16| size > low && u32::from(size) < high;
            let middle = low + ((high - u32::from(low)) / 2) as u16;
            let size = if high > self.ceiling.into() { self.ceiling } else { middle };
            self.begin(now, if inside(self.hint) { self.hint } else { size });
        }
    }

    fn report_blocked(&mut self) {
        if !std::mem::replace(&mut self.reported_blocked, true) {
            self.news.push_back(EventKind::PathsBlocked);
        }
    }

    fn told(&mut self, before: u16) -> bool {
        let changed = self.current != before;
        if changed {
            self.news.push_back(EventKind::PathMtu(self.datagram()));
        }
        changed
    }

    /// Handles a PROBED. Returns whether the longest payload has changed.
    pub(in crate::endpoint) fn on_answer(&mut self, now: Time, probe: &Probe) -> bool {
        if !self.probes.expects(probe.serial) || probe.size > self.ceiling {
            return false;
        }
        self.silent = 0;
        let way = self.probes.on_answer(now, probe.serial);
        if probe.size == self.base
            && let Some(round) = &mut self.round
        {
            match way {
                Way::Path => round.base_by_path = true,
                Way::Port => round.base_by_port = true,
            }
            if round.is_suspicion && round.asked == 0 {
                self.advance(now); // the peer is alive: probe the size
            }
        }
        if way == Way::Path && self.port_only {
            self.port_only = false;
            if std::mem::take(&mut self.reported_blocked) {
                self.news.push_back(EventKind::PathsOpen);
            }
        }
        let as_data = way == self.way();
        let answers_round = self.round.is_some_and(|round| round.size == probe.size);
        let before = self.current;
        if as_data && (answers_round || probe.size > before) {
            self.current = before.max(probe.size);
            if u32::from(probe.size) >= self.too_large {
                self.too_large = u32::from(self.ceiling) + 1;
            }
            (self.round, self.next_at) = (None, self.next_at.max(now));
            self.due.clear();
            self.plan(now);
        }
        self.told(before)
    }

    /// Returns the next probe to send.
    pub(in crate::endpoint) fn poll_due(&mut self, now: Time) -> Option<(Probe, Way)> {
        let (size, way) = self.due.pop()?;
        let serial = self.probes.send(now, way);
        let (kind, qp, token) = (ProbeKind::Probe, QpId::default(), Token::default());
        Some((Probe { kind, qp, from: qp, token, size, serial }, way))
    }
}
