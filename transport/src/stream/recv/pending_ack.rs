//! The pending acknowledgement of an incoming stream.

use std::time::Duration;

use braid_wire::{PathId, Time};

/// Time after a lone acknowledgement within which data counts as a reply to its message.
const SOON: Duration = Duration::from_millis(1);

/// The pending acknowledgement, and the packet that it will echo.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingAck {
    /// Time at which the acknowledgement is due. [`Time::ZERO`]: at once. [`Time::FAR_FUTURE`]:
    /// nothing is pending, or the acknowledgement only waits for data that could leave first.
    pub(super) due: Time,
    /// Whether the peer has requested it.
    pub(super) asked: bool,
    /// Whether data has gone in the other direction since. The peer then has its reply and can wait
    /// a little for the acknowledgement of the request. So one may cover several messages (like
    /// TCP's delayed ack, RFC 1122, section 4.2.3.2).
    pub(super) replied: bool,
    /// From this time on, data in the other direction makes the acknowledgement leave at once.
    /// Alone, it would cost a datagram of its own at the moment when the next reply is expected.
    pub(super) joins_from: Time,
    /// Whether the acknowledgement waits for a reply, to leave with it.
    pub(super) awaits_reply: bool,
    /// Whether the application replied to the previous message, so that the next acknowledgement
    /// may wait for a reply as well.
    pub(super) is_reply_usual: bool,
    /// Data that leaves before this time counts as a reply to a message whose acknowledgement left
    /// alone.
    pub(super) reply_until: Time,
    pub(super) unacked: u32,
    pub(super) stamp: u32,
    pub(super) path: PathId,
    pub(super) arrived: Time,
    /// Delay of an acknowledgement after a reply to its message.
    reply_hold: Duration,
    /// Delay of an acknowledgement that waits for a reply to its message. Zero: none waits.
    reply_wait: Duration,
}

impl PendingAck {
    pub(super) fn nothing(reply_hold: Duration, reply_wait: Duration) -> Self {
        PendingAck {
            due: Time::FAR_FUTURE,
            asked: false,
            replied: false,
            joins_from: Time::ZERO,
            awaits_reply: false,
            is_reply_usual: false,
            reply_until: Time::ZERO,
            unacked: 0,
            stamp: 0,
            path: PathId::default(),
            arrived: Time::ZERO,
            reply_hold,
            reply_wait,
        }
    }

    /// Records the peer's request for the acknowledgement: it leaves as soon as no data does. No
    /// time limit is needed, because that is sooner than any limit.
    pub(super) fn ask(&mut self) {
        self.asked = true;
        if self.due > Time::ZERO {
            self.due = Time::FAR_FUTURE;
        }
    }

    /// Makes a requested acknowledgement wait for a reply, if replies are usual.
    pub(super) fn wait_for_reply(&mut self, now: Time) {
        if self.is_reply_usual && !self.reply_wait.is_zero() {
            self.awaits_reply = true;
            self.by(now + self.reply_wait);
        }
    }

    /// Handles data that is sent in the other direction.
    pub(super) fn on_reply(&mut self, now: Time) {
        if !self.asked {
            self.is_reply_usual |= now < self.reply_until;
            return;
        }
        if !self.replied {
            (self.replied, self.is_reply_usual) = (true, true);
            self.joins_from = now + self.reply_hold / 2;
            self.by(now + self.reply_hold);
        } else if now >= self.joins_from {
            self.by(Time::ZERO);
        }
    }

    /// Handles a response that leaves for the peer. A response acknowledges its request and all
    /// requests before it, so the acknowledgement only has to report the path and the delay.
    pub(super) fn on_implied(&mut self, limit: Time) {
        if self.asked && self.due > Time::ZERO {
            (self.asked, self.replied, self.awaits_reply) = (false, false, false);
            self.due = limit;
        }
    }

    /// Records that the acknowledgement leaves. Nothing is pending afterwards.
    pub(super) fn leave(&mut self) {
        if self.asked && !self.replied {
            (self.is_reply_usual, self.reply_until) = (false, self.arrived + SOON);
        }
        (self.due, self.unacked) = (Time::FAR_FUTURE, 0);
        (self.asked, self.replied, self.awaits_reply) = (false, false, false);
    }

    /// Makes a pending acknowledgement due, whatever it waits for.
    pub(super) fn expedite(&mut self) {
        if self.asked || self.unacked > 0 {
            self.by(Time::ZERO);
        }
    }

    /// Limits the delay of the acknowledgement.
    pub(super) fn by(&mut self, limit: Time) {
        self.due = self.due.min(limit);
    }
}
