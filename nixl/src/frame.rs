//! The frames of a connection's messages, which carry the sender's name and its notifications.
//!
//! A frame is one SEND: a byte that tells its kind, and bytes. A text longer than a frame continues
//! in the next one.

/// The largest number of bytes of a frame.
pub(crate) const FRAME: usize = 1024;
/// The largest number of bytes of a notification.
pub(crate) const MAX_NOTIFICATION: usize = 16 << 20;
/// The largest number of bytes of an agent's name.
const MAX_NAME: usize = 64 << 10;

const NAME: u8 = 1;
const NOTIFICATION: u8 = 2;
/// The text continues in the next frame.
const CONTINUED: u8 = 0x80;

/// Returns the frames of the name, which are the first ones of a connection.
pub(crate) fn name(agent: &[u8]) -> Vec<Vec<u8>> {
    frames(NAME, agent)
}

/// Returns the frames of a notification.
pub(crate) fn notification(text: &[u8]) -> Vec<Vec<u8>> {
    frames(NOTIFICATION, text)
}

fn frames(kind: u8, text: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = text;
    let mut frames = Vec::new();
    loop {
        let (now, later) = rest.split_at(rest.len().min(FRAME - 1));
        let kind = if later.is_empty() { kind } else { kind | CONTINUED };
        frames.push([&[kind], now].concat());
        rest = later;
        if rest.is_empty() {
            return frames;
        }
    }
}

/// A notification: the agent that has sent it, and its text.
pub(crate) type Notification = (Vec<u8>, Vec<u8>);

/// A peer has sent something else than frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("an empty frame")]
    Empty,
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    #[error("a text of another kind begins before one has ended")]
    Mixed,
    #[error("a text is longer than {0} bytes")]
    Long(usize),
    #[error("a notification comes before the name of the agent")]
    Nameless,
    #[error("the name of the agent comes twice")]
    Renamed,
}

/// The frames of one peer, put together.
#[derive(Default)]
pub(crate) struct Texts {
    name: Option<Vec<u8>>,
    kind: u8,
    partial: Vec<u8>,
}

impl Texts {
    /// Takes a frame. Returns the sender's name and the notification, if one is complete.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Result<Option<Notification>, FrameError> {
        let (&first, text) = frame.split_first().ok_or(FrameError::Empty)?;
        let (kind, is_continued) = (first & !CONTINUED, first & CONTINUED != 0);
        let max = match kind {
            NAME => MAX_NAME,
            NOTIFICATION => MAX_NOTIFICATION,
            _ => return Err(FrameError::Kind(first)),
        };
        if self.kind != 0 && self.kind != kind {
            return Err(FrameError::Mixed);
        }
        if self.partial.len() + text.len() > max {
            return Err(FrameError::Long(max));
        }
        self.partial.extend_from_slice(text);
        self.kind = kind;
        if is_continued {
            return Ok(None);
        }
        self.kind = 0;
        let text = std::mem::take(&mut self.partial);
        match (&self.name, kind) {
            (None, NAME) => {
                self.name = Some(text);
                Ok(None)
            }
            (Some(_), NAME) => Err(FrameError::Renamed),
            (None, _) => Err(FrameError::Nameless),
            (Some(name), _) => Ok(Some((name.clone(), text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Texts {
        let mut texts = Texts::default();
        for frame in name(b"prefill") {
            assert_eq!(texts.take(&frame), Ok(None));
        }
        texts
    }

    #[test]
    fn texts_of_all_lengths_arrive_whole() {
        let mut texts = named();
        for len in [0, 1, FRAME - 2, FRAME - 1, FRAME, 2 * (FRAME - 1), 100_000] {
            let text: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let frames = notification(&text);
            assert!(frames.iter().all(|frame| frame.len() <= FRAME));
            let ends: Vec<_> = frames.iter().filter_map(|f| texts.take(f).unwrap()).collect();
            assert_eq!(ends, [(b"prefill".to_vec(), text)]);
        }
    }

    #[test]
    fn hostile_frames_are_refused() {
        assert_eq!(Texts::default().take(b""), Err(FrameError::Empty));
        assert_eq!(Texts::default().take(b"\x07a"), Err(FrameError::Kind(7)));
        assert_eq!(Texts::default().take(b"\x02a"), Err(FrameError::Nameless));
        assert_eq!(named().take(b"\x01again"), Err(FrameError::Renamed));
        let mut texts = named();
        assert_eq!(texts.take(b"\x82begun"), Ok(None));
        assert_eq!(texts.take(b"\x01name"), Err(FrameError::Mixed));
        let mut texts = named();
        let endless = [&[0x82][..], &[0; 1 << 20]].concat();
        let error = (0..20).find_map(|_| texts.take(&endless).err());
        assert_eq!(error, Some(FrameError::Long(MAX_NOTIFICATION)));
    }
}
