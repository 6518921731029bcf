//! The acknowledgement that an incoming stream owes.

use std::time::Duration;

use braid_wire::{PathId, Time};

/// After an acknowledgement has left alone, data that follows its message within this time is a
/// reply to it.
const SOON: Duration = Duration::from_millis(1);

/// The acknowledgement that is owed, and the packet that it will echo.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingAck {
    /// Time at which the acknowledgement is due. [`Time::ZERO`]: at once. [`Time::FAR_FUTURE`]:
    /// nothing is pending, or the acknowledgement waits only for data that could leave.
    pub(super) due: Time,
    /// The peer has asked for it.
    pub(super) asked: bool,
    /// Data has gone the other way since. The peer, which got a reply, can wait a little for the
    /// acknowledgement of the request, so that one acknowledgement may do for several messages (as
    /// TCP's delayed ack, RFC 1122, section 4.2.3.2).
    pub(super) replied: bool,
    /// Data that goes the other way after this time takes the acknowledgement along. Alone, it
    /// would cost a datagram of its own at the moment when the next reply is expected.
    pub(super) joins_from: Time,
    /// The acknowledgement waits for a reply, to leave with it.
    pub(super) awaits_reply: bool,
    /// The application has replied to the message before: the next acknowledgement may wait for a
    /// reply as well.
    pub(super) is_reply_usual: bool,
    /// Data that leaves before this time is a reply to a message whose acknowledgement left alone.
    pub(super) reply_until: Time,
    pub(super) unacked: u32,
    pub(super) stamp: u32,
    pub(super) path: PathId,
    pub(super) arrived: Time,
    /// Packets that had been taken when the last acknowledgement left, ...
    pub(super) taken: u64,
    /// ... and how many before it had left when that was as much.
    pub(super) repeats: u32,
}

impl PendingAck {
    pub(super) fn nothing() -> Self {
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
            taken: 0,
            repeats: 0,
        }
    }

    /// Asks for the acknowledgement: it leaves as soon as no data does, without a time limit. That
    /// is sooner than any limit there was.
    pub(super) fn ask(&mut self) {
        self.asked = true;
        if self.due > Time::ZERO {
            self.due = Time::FAR_FUTURE;
        }
    }

    /// Data goes the other way.
    pub(super) fn on_reply(&mut self, now: Time, hold: Duration) {
        if !self.asked {
            self.is_reply_usual |= now < self.reply_until;
            return;
        }
        if !self.replied {
            (self.replied, self.is_reply_usual) = (true, true);
            self.joins_from = now + hold / 2;
            self.by(now + hold);
        } else if now >= self.joins_from {
            self.by(Time::ZERO);
        }
    }

    /// Data that leaves for the peer acknowledges all that has arrived, so the acknowledgement has
    /// only to tell the path and the delay.
    pub(super) fn on_implied(&mut self, limit: Time) {
        if self.asked && self.due > Time::ZERO {
            (self.asked, self.replied, self.awaits_reply) = (false, false, false);
            self.due = limit;
        }
    }

    /// The acknowledgement leaves. Nothing is owed afterwards.
    pub(super) fn leave(&mut self) {
        if self.asked && !self.replied {
            (self.is_reply_usual, self.reply_until) = (false, self.arrived + SOON);
        }
        (self.due, self.unacked) = (Time::FAR_FUTURE, 0);
        (self.asked, self.replied, self.awaits_reply) = (false, false, false);
    }

    /// Makes a pending acknowledgement due, whatever it waits for.
    pub(super) fn hasten(&mut self) {
        if self.asked || self.unacked > 0 {
            self.by(Time::ZERO);
        }
    }

    /// Limits the time that the acknowledgement waits.
    pub(super) fn by(&mut self, limit: Time) {
        self.due = self.due.min(limit);
    }
}
