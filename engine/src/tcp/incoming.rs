//! The bytes that arrive by a connection, and the frames in them.

use socket2::Socket;

use super::closing::Closed;
use super::direct::Direct;
use super::outgoing::LENGTH;
use super::socket;

/// Bytes that are taken from a connection at a time.
const READ: usize = 256 << 10;
/// Bytes that are taken at a time where long segments arrive: enough for the header of the next,
/// whose payload then goes straight into its place.
const READ_AHEAD: usize = 8 << 10;
/// Bytes of the longest frame: a data packet with the longest payload, encrypted.
pub(super) const MAX_FRAME: usize = (64 << 10) + 256;
/// Bytes of the longest frame of a peer without queue pairs here, which only sets one up: a set-up
/// packet. A stranger's half frame occupies no more.
pub(super) const MAX_STRANGERS_FRAME: usize = 2048;

/// The buffer into which all connections of a datapath receive.
pub(super) struct Scratch(Box<[u8]>);

impl Scratch {
    pub(super) fn new() -> Self {
        Scratch(vec![0; READ + LENGTH + MAX_FRAME].into_boxed_slice())
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The arrived bytes of a connection that make no whole frame yet.
#[derive(Default)]
pub(super) struct Incoming {
    partial: Vec<u8>,
    /// The segment that arrives straight in its place. Then `partial` is empty.
    pub(super) direct: Option<Direct>,
    /// Bytes that have arrived so far.
    pub(super) received: u64,
    /// Whether long segments arrive.
    pub(super) is_bulk: bool,
}

impl Incoming {
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether a frame has arrived in part.
    pub(super) fn is_partial(&self) -> bool {
        !self.partial.is_empty() || self.direct.is_some()
    }

    /// Receives. Returns the bytes that are not taken yet, old and new; `None`: nothing has
    /// arrived.
    pub(super) fn fill<'a>(
        &mut self,
        socket: &Socket,
        scratch: &'a mut Scratch,
    ) -> Result<Option<&'a mut [u8]>, Closed> {
        let have = self.partial.len();
        scratch.0[..have].copy_from_slice(&self.partial);
        let most = if self.is_bulk { READ_AHEAD } else { READ };
        let count = match socket::receive(socket, &mut scratch.0[have..have + most])? {
            None => return Ok(None),
            Some(0) if have > 0 => return Err(Closed::EndInFrame),
            Some(0) => return Err(Closed::End),
            Some(count) => count,
        };
        self.received += count as u64;
        // Until the next long segment.
        self.is_bulk &= count < most;
        Ok(Some(&mut scratch.0[..have + count]))
    }

    /// Keeps bytes for the next call of [`Incoming::fill`].
    pub(super) fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            // Thousands of idle connections hold no buffers.
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }
}

/// Hands the whole frames at the beginning of `bytes` to `take`. Returns the bytes behind them.
pub(super) fn frames(
    mut bytes: &mut [u8],
    most: usize,
    mut take: impl FnMut(&mut [u8]),
) -> Result<&mut [u8], Closed> {
    while let Some(length) = bytes.first_chunk::<LENGTH>() {
        let len = u32::from_be_bytes(*length);
        if len == 0 || len as usize > most {
            return Err(Closed::FrameLength { len, most });
        }
        let end = LENGTH + len as usize;
        if bytes.len() < end {
            break;
        }
        let (frame, rest) = bytes.split_at_mut(end);
        take(&mut frame[LENGTH..]);
        bytes = rest;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(packets: &[&[u8]]) -> Vec<u8> {
        let frame = |packet: &&[u8]| [&(packet.len() as u32).to_be_bytes(), *packet].concat();
        packets.iter().map(frame).collect::<Vec<_>>().concat()
    }

    #[test]
    fn whole_frames_are_taken_and_the_rest_is_left() {
        let packets: [&[u8]; 3] = [b"a", b"bcd", &[7; 2000]];
        let all = framed(&packets);
        for end in 0..=all.len() {
            let mut bytes = all[..end].to_vec();
            let mut taken = Vec::new();
            let rest = frames(&mut bytes, 2000, |frame| taken.push(frame.to_vec())).unwrap();
            let whole = framed(&taken.iter().map(Vec::as_slice).collect::<Vec<_>>());
            assert_eq!([whole, rest.to_vec()].concat(), &all[..end]);
            assert_eq!(taken.len(), [5, 12, 2016].iter().filter(|len| **len <= end).count());
        }
    }

    #[test]
    fn no_frame_is_empty_or_longer_than_agreed() {
        for (len, most) in [(0, 10), (11, 10), (u32::MAX, MAX_FRAME)] {
            let mut bytes = [framed(&[b"whole"]), len.to_be_bytes().to_vec()].concat();
            let mut taken = 0;
            let error = frames(&mut bytes, most, |_| taken += 1).unwrap_err();
            assert!(matches!(error, Closed::FrameLength { len: named, .. } if named == len));
            assert_eq!(taken, 1);
        }
    }
}
