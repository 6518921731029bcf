//! Bytes that can be computed anywhere, so that no copy of a payload has to be kept.

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Versions of a content: the first, and those that its owner replaces parts of it with.
pub(crate) const VERSIONS: u64 = 4;

/// Content without end: `from` says where in it a buffer begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    tag: u64,
    from: u64,
}

impl Content {
    /// The payload of a work request.
    pub(crate) fn of(host: usize, qp: usize, id: u64) -> Self {
        let mixed = (id ^ (host as u64) << 60 ^ (qp as u64) << 52).wrapping_mul(ODD);
        Content { tag: (mixed ^ mixed >> 29).wrapping_mul(ODD), from: 0 }
    }

    /// The same, `by` bytes further on.
    pub(crate) fn skip(self, by: u64) -> Self {
        Content { from: self.from + by, ..self }
    }

    /// The same, changed by its owner; 0: as it was first.
    pub(crate) fn version(self, version: u64) -> Self {
        Content { tag: self.tag ^ version.wrapping_mul(ODD << 1), ..self }
    }

    pub(crate) fn tag(self) -> u64 {
        self.tag
    }

    /// Where in it this begins.
    pub(crate) fn start(self) -> u64 {
        self.from
    }

    pub(crate) fn bytes(self, len: u64) -> impl Iterator<Item = u8> {
        (self.from..self.from + len).map(move |i| mix(self.tag.wrapping_add(i)))
    }
}

/// Returns the byte at an address that nobody has written to.
pub(crate) fn background(addr: u64) -> u8 {
    mix(!addr)
}

fn mix(x: u64) -> u8 {
    (x.wrapping_mul(ODD) >> 56) as u8
}

/// Where two equally long strings differ first.
pub(crate) fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    assert_eq!(a.len(), b.len());
    if a == b { None } else { a.iter().zip(b).position(|(x, y)| x != y) }
}
