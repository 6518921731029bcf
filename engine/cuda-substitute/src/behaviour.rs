//! The behaviour of copies, and the record of them.

/// The behaviour of copies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// The shortest and the longest time that a copy takes, in microseconds.
    pub shortest_us: u64,
    /// See above.
    pub longest_us: u64,
    /// The number of copies before one fails as it is carried out. 0: none does.
    pub fails_after: u64,
    /// The number of copies before one is refused as it is requested. 0: none is.
    pub refuses_after: u64,
}

/// The copies so far, and the calls that a kernel may hold up.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Copies to the device that have ended.
    pub copies_in: u64,
    /// Bytes that they moved.
    pub bytes_in: u64,
    /// Copies from the device that have ended.
    pub copies_out: u64,
    /// Bytes that they moved.
    pub bytes_out: u64,
    /// Copies that were requested and have not ended.
    pub under_way: u64,
    /// Calls that may wait for running kernels: memory of the device allocated or freed, memory of
    /// the host pinned or unpinned, a context retained, a stream made or destroyed.
    pub waiting_calls: u64,
    /// The stream that was last waited for.
    pub last_awaited: u64,
}
