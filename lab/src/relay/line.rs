//! One direction of a delayed link.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use tun_rs::SyncDevice;

/// An Ethernet header with a VLAN tag, and the longest IP packet.
pub(super) const LONGEST_FRAME: usize = 18 + 65_535;

/// Frames that are read at once before those that are due are sent.
const BATCH: usize = 64;

/// One direction of a link. All frames have the same delay, so they stay in order.
pub(super) struct DelayLine {
    delay: Duration,
    held: VecDeque<(Instant, Box<[u8]>)>,
}

/// A source and destination of frames that does not block.
pub(super) trait Port {
    /// Reads a frame. The error is [`io::ErrorKind::WouldBlock`] if there is none.
    fn recv(&self, frame: &mut [u8]) -> io::Result<usize>;
    /// Writes a frame.
    fn send(&self, frame: &[u8]) -> io::Result<usize>;
}

impl Port for SyncDevice {
    fn recv(&self, frame: &mut [u8]) -> io::Result<usize> {
        Self::recv(self, frame)
    }

    fn send(&self, frame: &[u8]) -> io::Result<usize> {
        Self::send(self, frame)
    }
}

impl DelayLine {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, held: VecDeque::new() }
    }

    /// Takes the frames that wait at a port, up to a batch of them.
    pub(super) fn take(
        &mut self,
        from: &impl Port,
        now: Instant,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        for _ in 0..BATCH {
            match from.recv(buffer) {
                Ok(length) => self.held.push_back((now + self.delay, buffer[..length].into())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends the frames that are due. A frame that the port does not take is lost, as on a cut
    /// wire.
    pub(super) fn send_due(&mut self, to: &impl Port, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            let (_, frame) = self.held.pop_front().expect("it is due");
            let _ = to.send(&frame);
        }
    }

    /// The time at which the next frame is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.held.front().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Default)]
    struct Wire {
        frames: RefCell<VecDeque<Vec<u8>>>,
        broken: bool,
    }

    impl Port for Wire {
        fn recv(&self, frame: &mut [u8]) -> io::Result<usize> {
            let next = self.frames.borrow_mut().pop_front();
            let next = next.ok_or(io::ErrorKind::WouldBlock)?;
            frame[..next.len()].copy_from_slice(&next);
            Ok(next.len())
        }

        fn send(&self, frame: &[u8]) -> io::Result<usize> {
            if self.broken {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.frames.borrow_mut().push_back(frame.to_vec());
            Ok(frame.len())
        }
    }

    fn wire(frames: impl IntoIterator<Item = u8>) -> Wire {
        let frames = frames.into_iter().map(|byte| vec![byte; usize::from(byte) + 1]).collect();
        Wire { frames: RefCell::new(frames), broken: false }
    }

    #[test]
    fn frames_come_out_as_they_went_in_after_the_delay() {
        let (from, to) = (wire(0..50), Wire::default());
        let mut line = DelayLine::new(Duration::from_millis(5));
        let start = Instant::now();
        let mut buffer = [0; 256];
        line.take(&from, start, &mut buffer).expect("nothing is broken");
        from.frames.borrow_mut().push_back(vec![9; 9]);
        line.take(&from, start + Duration::from_millis(1), &mut buffer).expect("nothing is broken");

        line.send_due(&to, start + Duration::from_micros(4999));
        assert!(to.frames.borrow().is_empty(), "too early");
        assert_eq!(line.next_due(), Some(start + Duration::from_millis(5)));
        line.send_due(&to, start + Duration::from_millis(5));
        assert_eq!(*to.frames.borrow(), *wire(0..50).frames.borrow());
        line.send_due(&to, start + Duration::from_millis(6));
        assert_eq!(to.frames.borrow().back(), Some(&vec![9; 9]));
        assert_eq!(line.next_due(), None);
    }

    #[test]
    fn a_busy_port_does_not_keep_the_others_waiting() {
        let from = wire(0..200);
        let mut line = DelayLine::new(Duration::ZERO);
        line.take(&from, Instant::now(), &mut [0; 256]).expect("nothing is broken");
        assert_eq!(line.held.len(), BATCH);
    }

    #[test]
    fn a_port_that_is_down_swallows_frames() {
        let (from, to) = (wire(0..3), Wire { broken: true, ..Wire::default() });
        let mut line = DelayLine::new(Duration::ZERO);
        let now = Instant::now();
        line.take(&from, now, &mut [0; 256]).expect("nothing is broken");
        line.send_due(&to, now);
        assert_eq!(line.next_due(), None);
    }
}
