//! Congestion marks per path, as acknowledgements report them.

use smallvec::SmallVec;

use crate::{DecodeError, PathId};

/// Maximum number of paths whose marks one acknowledgement reports.
pub const MAX_MARKED_PATHS: usize = 64;

/// The number of packets with a congestion mark (ECN CE) that arrived on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathMarks {
    /// The path.
    pub path: PathId,
    /// Number of marked packets so far, modulo 2^16.
    pub count: u16,
}

/// Marks of several paths: at most [`MAX_MARKED_PATHS`], in ascending order, each path once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    paths: SmallVec<[PathMarks; 4]>,
}

impl Marks {
    /// Sorts the marks by path. Keeps the first entry of each path and the first
    /// [`MAX_MARKED_PATHS`] entries.
    pub fn new(paths: impl IntoIterator<Item = PathMarks>) -> Self {
        let mut paths: SmallVec<[PathMarks; 4]> =
            paths.into_iter().take(MAX_MARKED_PATHS).collect();
        paths.sort_by_key(|marks| marks.path);
        paths.dedup_by_key(|marks| marks.path);
        Marks { paths }
    }

    /// Returns the marks in ascending order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = PathMarks> + '_ {
        self.paths.iter().copied()
    }

    /// Returns whether no path was marked.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for PathMarks { path, count } in &self.paths {
            out.extend_from_slice(&path.to_bits().to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (chunks, _) = bytes.as_chunks::<4>();
        let mut paths = SmallVec::new();
        let mut before = None;
        for [a, b, c, d] in chunks {
            let (path, count) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            let known = PathId::from_bits(path);
            if known.to_bits() != path || before >= Some(path) {
                return Err(DecodeError::Field("marked path"));
            }
            before = Some(path);
            paths.push(PathMarks { path: known, count });
        }
        Ok(Marks { paths })
    }
}
