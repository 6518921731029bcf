//! Serialisation and propagation times of frames.

use crate::events::{Events, Span};
use crate::packet::Packet;
use crate::time::{Ps, Rate};

/// Cached times of frames, shared by all links of the same speed and delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speeds {
    known: Vec<Speed>,
}

/// The index of a [`Speed`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedId(u32);

#[derive(Clone, Debug)]
struct Speed {
    rate: Rate,
    delay: Ps,
    /// The frames sent last, one of control and one of data. Most frames have the length of the one
    /// before.
    recent: [Option<Frame>; 2],
}

/// The times of a frame of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    bytes: u32,
    /// Time until the next frame may follow.
    pub(crate) until_sent: Span,
    /// Time until the frame is at the far end.
    pub(crate) until_arrived: Span,
    /// The same time as `until_sent`.
    pub(crate) occupies: Ps,
}

impl Speeds {
    pub(crate) fn find(&mut self, rate: Rate, delay: Ps) -> SpeedId {
        let same = |speed: &Speed| speed.rate == rate && speed.delay == delay;
        let at = self.known.iter().position(same).unwrap_or_else(|| {
            self.known.push(Speed { rate, delay, recent: [None; 2] });
            self.known.len() - 1
        });
        SpeedId(at as u32)
    }

    /// Returns the times of a packet with a gap of `gap` bytes after it.
    pub(crate) fn frame<E: Copy>(
        &mut self,
        speed: SpeedId,
        packet: &Packet,
        gap: u32,
        events: &mut Events<E>,
    ) -> Frame {
        let speed = &mut self.known[speed.0 as usize];
        let recent = &mut speed.recent[usize::from(packet.is_data())];
        if let Some(frame) = recent.filter(|frame| frame.bytes == packet.bytes) {
            return frame;
        }
        let wire = speed.rate.time_for(packet.bytes);
        let occupies = wire + speed.rate.time_for(gap);
        let (until_sent, until_arrived) = (events.span(occupies), events.span(wire + speed.delay));
        *recent.insert(Frame { bytes: packet.bytes, until_sent, until_arrived, occupies })
    }
}
