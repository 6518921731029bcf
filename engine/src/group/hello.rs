//! The greeting of a rank: the private data of its connection.

/// The largest name of a job in bytes, as in a PMIx namespace.
pub const MAX_JOB: usize = 255;

const MAGIC: [u8; 4] = *b"BRDG";
const VERSION: u8 = 2;

/// The greeting of a rank by the purpose of its connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Hello {
    /// Asks rank 0 for the addresses of the others.
    Come {
        /// The name of the run. Empty: it has none.
        job: String,
        size: u32,
        rank: u32,
        /// The listening port, at the address that the rank connects from.
        port: u16,
        /// A digest of the list of addresses. 0: there is no list.
        list: u64,
    },
    /// Connects to another rank to exchange data.
    Join {
        /// The number that rank 0 has given the group.
        group: u64,
        from: u32,
        to: u32,
    },
}

impl Hello {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[VERSION]].concat();
        match self {
            Hello::Come { job, size, rank, port, list } => {
                bytes.push(0);
                bytes.push(job.len() as u8);
                bytes.extend(job.as_bytes());
                bytes.extend([size.to_be_bytes(), rank.to_be_bytes()].concat());
                bytes.extend(port.to_be_bytes());
                bytes.extend(list.to_be_bytes());
            }
            Hello::Join { group, from, to } => {
                bytes.push(1);
                bytes.extend(group.to_be_bytes());
                bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
            }
        }
        bytes
    }

    /// Decodes a greeting. `None`: the initiator is not a rank.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&[VERSION])?;
        let (kind, mut rest) = rest.split_first()?;
        let hello = match kind {
            0 => Hello::Come {
                job: take_job(&mut rest)?,
                size: u32::from_be_bytes(take(&mut rest)?),
                rank: u32::from_be_bytes(take(&mut rest)?),
                port: u16::from_be_bytes(take(&mut rest)?),
                list: u64::from_be_bytes(take(&mut rest)?),
            },
            1 => Hello::Join {
                group: u64::from_be_bytes(take(&mut rest)?),
                from: u32::from_be_bytes(take(&mut rest)?),
                to: u32::from_be_bytes(take(&mut rest)?),
            },
            _ => return None,
        };
        rest.is_empty().then_some(hello)
    }
}

/// Reads a name that is safe to show.
fn take_job(bytes: &mut &[u8]) -> Option<String> {
    let [len] = take(bytes)?;
    let (job, rest) = bytes.split_at_checked(len.into())?;
    *bytes = rest;
    let job = std::str::from_utf8(job).ok()?;
    is_job(job).then(|| job.to_owned())
}

/// Whether the text is a valid name of a job.
pub(super) fn is_job(text: &str) -> bool {
    text.len() <= MAX_JOB && !text.chars().any(char::is_control)
}

/// Splits the next bytes off `bytes`.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_journey_and_nothing_else_passes() {
        let come = |job: &str| {
            let job = job.to_owned();
            Hello::Come { job, size: 7, rank: 3, port: 4791, list: u64::MAX }
        };
        let longest = "j".repeat(MAX_JOB);
        for hello in
            [come(""), come("run 7"), come(&longest), Hello::Join { group: 9, from: 2, to: 1 }]
        {
            let bytes = hello.to_bytes();
            assert_eq!(Hello::from_bytes(&bytes), Some(hello));
            for cut in 0..bytes.len() {
                assert_eq!(Hello::from_bytes(&bytes[..cut]), None);
            }
            assert_eq!(Hello::from_bytes(&[&bytes[..], &[0]].concat()), None);
            for at in 0..6 {
                let mut other = bytes.clone();
                other[at] ^= 0x80;
                assert_eq!(Hello::from_bytes(&other), None);
            }
        }
        assert!(come(&longest).to_bytes().len() <= braid_wire::MAX_PRIVATE_DATA);
        for job in ["a\u{1b}[31m", "a\nb"] {
            assert_eq!(Hello::from_bytes(&come(job).to_bytes()), None, "it would be shown");
        }
    }
}
