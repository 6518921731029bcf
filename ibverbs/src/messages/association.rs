//! One end of a link, without I/O and without a clock.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::datagram::{Body, Datagram};

/// Time after which an end first repeats unacknowledged messages. It doubles each time.
const FIRST_REPEAT: Duration = Duration::from_millis(50);
const LAST_REPEAT: Duration = Duration::from_secs(1);
/// Time without a datagram after which an end probes. The connecting end waits a little longer, so
/// that one of both probes.
const LISTENER_PROBE: Duration = Duration::from_millis(1000);
const CLIENT_PROBE: Duration = Duration::from_millis(1250);
/// Time between two probes after the other end was reported gone.
const QUICK_PROBE: Duration = Duration::from_millis(100);
/// Number of consecutive reports that the other end is gone after which the link fails.
const REPORTS: u32 = 3;
/// Time for which a closed end repeats its `Close`.
const LINGER: Duration = Duration::from_secs(3);
/// The limit of unacknowledged messages, and of messages that the owner has not taken.
pub(super) const MAX_PENDING: usize = 16;

/// Progress of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The connecting end has no cookie yet.
    Hello,
    /// The connecting end has a cookie, but its first message is not acknowledged.
    Cookie(u64),
    Open,
    /// The exchange is finished.
    Over,
}

/// The result of taking a message.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Taken {
    Message(Vec<u8>),
    Nothing,
    /// One end has closed.
    End,
    /// The link has failed with this errno.
    Failed(c_int),
}

/// Unacknowledged messages and `Close` (`None`).
#[derive(Default)]
struct Unacknowledged {
    messages: VecDeque<Option<Vec<u8>>>,
    /// The number of the oldest one.
    first: u32,
}

impl Unacknowledged {
    /// The number of the next message.
    fn next(&self) -> u32 {
        self.first + self.messages.len() as u32
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// One end of a link.
pub(super) struct Association {
    link: u64,
    phase: Phase,
    is_client: bool,
    unacknowledged: Unacknowledged,
    /// Number of the next message of the other end.
    expected: u32,
    received: VecDeque<Vec<u8>>,
    is_closed_by_peer: bool,
    /// The time at which this end stops to repeat its `Close`.
    closed: Option<Instant>,
    failed: Option<c_int>,
    /// The time of the next repetition or probe.
    timer: Option<Instant>,
    repeat: Duration,
    last_received: Instant,
    /// Consecutive reports that the other end is gone, and the time from which the next one counts.
    reports: (u32, Instant),
    /// Datagrams to be sent.
    outgoing: VecDeque<Vec<u8>>,
}

impl Association {
    /// The connecting end, which sends `Hello`.
    pub(super) fn client(link: u64, now: Instant) -> Self {
        let mut client = Self::new(link, Phase::Hello, now);
        client.transmit(now);
        client
    }

    /// The accepting end, with the first message of the other.
    pub(super) fn server(link: u64, message: &[u8], now: Instant) -> Self {
        let mut server = Self::new(link, Phase::Open, now);
        server.take_in_order(0, Some(message));
        server.schedule(now);
        server
    }

    fn new(link: u64, phase: Phase, now: Instant) -> Self {
        Association {
            link,
            phase,
            is_client: phase == Phase::Hello,
            unacknowledged: Unacknowledged::default(),
            expected: 0,
            received: VecDeque::new(),
            is_closed_by_peer: false,
            closed: None,
            failed: None,
            timer: None,
            repeat: FIRST_REPEAT,
            last_received: now,
            reports: (0, now),
            outgoing: VecDeque::new(),
        }
    }

    /// Whether the connecting end has a cookie.
    pub(super) fn has_reached(&self) -> bool {
        self.phase != Phase::Hello
    }

    /// Whether the exchange is finished, so that the link can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The errno with which the link has failed; `EPIPE`: one end has closed; `ENOBUFS`: too many
    /// messages are not acknowledged.
    pub(super) fn send(&mut self, message: &[u8], now: Instant) -> Result<(), c_int> {
        if let Some(errno) = self.failed {
            return Err(errno);
        }
        if self.closed.is_some() || self.is_closed_by_peer {
            return Err(libc::EPIPE);
        }
        if self.unacknowledged.messages.len() >= MAX_PENDING {
            return Err(libc::ENOBUFS);
        }
        self.push(Some(message.to_vec()), now);
        Ok(())
    }

    /// Takes the next message, or the reason why there is none.
    pub(super) fn take(&mut self) -> Taken {
        match (self.received.pop_front(), self.failed) {
            _ if self.closed.is_some() => Taken::End,
            (Some(message), _) => Taken::Message(message),
            (None, Some(errno)) => Taken::Failed(errno),
            (None, None) if self.is_closed_by_peer => Taken::End,
            (None, None) => Taken::Nothing,
        }
    }

    /// Closes the link in both directions.
    pub(super) fn close(&mut self, now: Instant) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(now + LINGER);
        let has_sent_nothing =
            self.phase == Phase::Hello || self.is_client && self.unacknowledged.next() == 0;
        if has_sent_nothing || self.is_closed_by_peer || self.failed.is_some() {
            self.end();
        } else {
            self.push(None, now);
        }
    }

    /// Asks the other end for an answer at once.
    pub(super) fn probe(&mut self, now: Instant) {
        if self.phase == Phase::Open && self.failed.is_none() {
            self.queue(Body::Probe, 0);
            let soon = now + FIRST_REPEAT;
            self.timer = Some(self.timer.map_or(soon, |timer| timer.min(soon)));
            // If no answer comes, the probe is repeated.
            self.last_received = now.checked_sub(self.idle()).unwrap_or(now);
        }
    }

    /// Handles a datagram of this link. Returns whether it comes from the other end.
    pub(super) fn on_datagram(&mut self, datagram: &Datagram<'_>, now: Instant) -> bool {
        let is_answer = matches!(datagram.body, Body::Cookie(_));
        if self.phase == Phase::Over || is_answer && !self.is_client {
            return false;
        }
        match datagram.body {
            Body::Hello => return false,
            Body::Gone => {
                self.on_report(libc::ECONNREFUSED, now);
                return false;
            }
            Body::Cookie(cookie) => self.on_cookie(cookie, now),
            _ if self.phase == Phase::Hello => return false,
            Body::Open(_, message) if !self.is_client => self.take_in_order(0, Some(message)),
            Body::Open(..) => return false,
            Body::Data(message) => self.take_in_order(datagram.number, Some(message)),
            Body::Close => self.take_in_order(datagram.number, None),
            Body::Probe => self.queue(Body::Ack, 0),
            Body::Ack => {}
        }
        (self.last_received, self.reports) = (now, (0, now));
        if !is_answer {
            self.on_acknowledged(datagram.expected, now);
        }
        true
    }

    fn on_cookie(&mut self, cookie: u64, now: Instant) {
        if self.phase == Phase::Hello || matches!(self.phase, Phase::Cookie(_)) {
            (self.phase, self.repeat) = (Phase::Cookie(cookie), FIRST_REPEAT);
            self.transmit(now);
        }
    }

    /// Takes the message or `Close` of this number, if it is the next one. Acknowledges it unless
    /// there is no room.
    fn take_in_order(&mut self, number: u32, message: Option<&[u8]>) {
        if number == self.expected && !self.is_closed_by_peer {
            match message {
                Some(_) if self.received.len() >= MAX_PENDING => return,
                Some(message) if self.closed.is_none() => self.received.push_back(message.to_vec()),
                Some(_) => {}
                None => self.is_closed_by_peer = true,
            }
            self.expected += 1;
        }
        self.queue(Body::Ack, 0);
    }

    /// Handles an acknowledgement: `expected` is the number that the other end expects next.
    fn on_acknowledged(&mut self, expected: u32, now: Instant) {
        if self.is_closed_by_peer {
            // The other end takes nothing any more.
            self.unacknowledged.first = self.unacknowledged.next();
            self.unacknowledged.messages.clear();
        }
        let is_news =
            expected > self.unacknowledged.first && expected <= self.unacknowledged.next();
        if is_news {
            if let Phase::Cookie(_) = self.phase {
                self.phase = Phase::Open;
            }
            let is_first = self.is_client && self.unacknowledged.first == 0;
            self.unacknowledged.messages.drain(..(expected - self.unacknowledged.first) as usize);
            (self.unacknowledged.first, self.repeat) = (expected, FIRST_REPEAT);
            if is_first && !self.unacknowledged.is_empty() {
                self.transmit(now);
            }
        }
        if self.closed.is_some() && self.unacknowledged.is_empty() {
            return self.end();
        }
        // Other datagrams do not postpone a repetition.
        if is_news || self.unacknowledged.is_empty() {
            self.schedule(now);
        }
    }

    /// Handles a report of the network or of another process that the other end cannot be reached.
    /// An errno of 0 is no report.
    pub(super) fn on_report(&mut self, errno: c_int, now: Instant) {
        let is_gone = errno == libc::ECONNREFUSED;
        match self.phase {
            Phase::Over => {}
            _ if errno == 0 => {}
            Phase::Hello => self.fail(errno),
            // A routing error may be temporary.
            _ if !is_gone => {}
            _ if self.closed.is_some() => self.end(),
            // Only datagrams that were sent after a report can cause the next one.
            _ if now < self.reports.1 => {}
            _ => {
                self.reports = (self.reports.0 + 1, now + QUICK_PROBE / 2);
                self.timer = Some(now + QUICK_PROBE);
                if self.reports.0 == REPORTS {
                    self.fail(libc::ECONNRESET);
                }
            }
        }
    }

    fn fail(&mut self, errno: c_int) {
        self.failed.get_or_insert(errno);
        self.timer = None;
        if self.closed.is_some() {
            self.end();
        }
    }

    fn end(&mut self) {
        (self.phase, self.timer) = (Phase::Over, None);
        self.unacknowledged.messages.clear();
    }

    /// The time at which [`Association::on_timeout`] is due.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timer
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|timer| timer > now) {
            return;
        }
        if self.closed.is_some_and(|closed| closed <= now) {
            return self.end();
        }
        if self.phase == Phase::Hello || !self.unacknowledged.is_empty() {
            self.repeat = (self.repeat * 2).min(LAST_REPEAT);
            return self.transmit(now);
        }
        let is_doubtful = self.reports.0 > 0;
        if is_doubtful || now.duration_since(self.last_received) >= self.idle() {
            self.queue(Body::Probe, 0);
            self.timer = Some(now + if is_doubtful { QUICK_PROBE } else { self.idle() });
        } else {
            self.schedule(now);
        }
    }

    /// The next datagram to be sent.
    pub(super) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    fn idle(&self) -> Duration {
        if self.is_client { CLIENT_PROBE } else { LISTENER_PROBE }
    }

    fn push(&mut self, message: Option<Vec<u8>>, now: Instant) {
        let was_idle = self.unacknowledged.is_empty();
        self.unacknowledged.messages.push_back(message);
        if was_idle {
            self.repeat = FIRST_REPEAT;
        }
        self.queue_numbered(self.unacknowledged.messages.len() - 1);
        self.schedule(now);
    }

    /// Sends all unacknowledged messages.
    fn transmit(&mut self, now: Instant) {
        if self.phase == Phase::Hello {
            self.queue(Body::Hello, 0);
        } else {
            (0..self.unacknowledged.messages.len()).for_each(|index| self.queue_numbered(index));
        }
        self.schedule(now);
    }

    fn queue_numbered(&mut self, index: usize) {
        let number = self.unacknowledged.first + index as u32;
        let message = self.unacknowledged.messages[index].take();
        match (self.phase, &message) {
            (Phase::Hello | Phase::Over, _) => {}
            (Phase::Cookie(cookie), Some(message)) if number == 0 => {
                self.queue(Body::Open(cookie, message), 0);
            }
            // The listener's end exists only once the first message has come.
            (Phase::Cookie(_), _) => {}
            (Phase::Open, Some(message)) => self.queue(Body::Data(message), number),
            (Phase::Open, None) => self.queue(Body::Close, number),
        }
        self.unacknowledged.messages[index] = message;
    }

    fn queue(&mut self, body: Body<'_>, number: u32) {
        let datagram = Datagram { link: self.link, number, expected: self.expected, body };
        self.outgoing.push_back(datagram.encode());
    }

    fn schedule(&mut self, now: Instant) {
        if self.failed.is_some() || self.is_over() {
            self.timer = None;
        } else if self.phase == Phase::Hello || !self.unacknowledged.is_empty() {
            self.timer = Some(now + self.repeat);
        } else if self.is_closed_by_peer || matches!(self.phase, Phase::Cookie(_)) {
            self.timer = None;
        } else {
            self.timer = Some(self.last_received + self.idle());
        }
    }
}
