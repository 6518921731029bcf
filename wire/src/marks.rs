//! Congestion marks by path, as acknowledgements report them.

use smallvec::SmallVec;

use crate::{DecodeError, PathId};

/// Paths that one acknowledgement reports marks of, at most.
pub const MAX_MARKED_PATHS: usize = 64;

/// The packets with a congestion mark (ECN CE) that have come by one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathMarks {
    /// The path.
    pub path: PathId,
    /// How many so far, modulo 2^16.
    pub count: u16,
}

/// Those of several paths: ascending, each once, at most [`MAX_MARKED_PATHS`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    paths: SmallVec<[PathMarks; 4]>,
}

impl Marks {
    /// Sorts them; of several of one path, and of those beyond [`MAX_MARKED_PATHS`], the first count.
    pub fn new(paths: impl IntoIterator<Item = PathMarks>) -> Self {
        let mut paths: SmallVec<[PathMarks; 4]> =
            paths.into_iter().take(MAX_MARKED_PATHS).collect();
        paths.sort_by_key(|marks| marks.path);
        paths.dedup_by_key(|marks| marks.path);
        Marks { paths }
    }

    /// Ascending by path.
    pub fn iter(&self) -> impl Iterator<Item = PathMarks> + '_ {
        self.paths.iter().copied()
    }

    /// Whether no path was marked.
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
