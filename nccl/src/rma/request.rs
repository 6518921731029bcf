//! The requests of NCCL: numbers, which a group resolves. A request that is over is an error and no
//! access to memory that is gone, even if its context was destroyed.

/// A request. As NCCL's pointer it is never NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestId {
    /// The context of the group, from 1 on.
    pub(super) context: u16,
    /// The queue of the context.
    pub(super) queue: u16,
    /// The place in the queue.
    pub(super) place: u16,
    /// The use of that place.
    pub(super) generation: u16,
}

impl RequestId {
    /// Returns NCCL's pointer.
    pub(crate) fn to_pointer(self) -> *mut std::ffi::c_void {
        let [context, queue, place, generation] =
            [self.context, self.queue, self.place, self.generation].map(usize::from);
        std::ptr::without_provenance_mut(context << 48 | queue << 32 | place << 16 | generation)
    }

    /// Returns the request behind NCCL's pointer.
    pub(crate) fn from_pointer(pointer: *mut std::ffi::c_void) -> Self {
        let [context, queue, place, generation] =
            [48, 32, 16, 0].map(|shift| (pointer.addr() >> shift) as u16);
        RequestId { context, queue, place, generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_as_a_pointer() {
        let request = RequestId { context: 1, queue: 65_535, place: 511, generation: 7 };
        assert!(!request.to_pointer().is_null());
        assert_eq!(RequestId::from_pointer(request.to_pointer()), request);
    }
}
