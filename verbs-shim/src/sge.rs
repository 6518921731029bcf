//! Scatter/gather entries.

/// A scatter/gather entry: `len` bytes at `addr`, in the memory region of `lkey`. Its layout is
/// that of `ibv_sge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Sge {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The region's key, see [`Mr::lkey`](crate::Mr::lkey).
    pub lkey: u32,
}
