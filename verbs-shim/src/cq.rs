//! Completion queues.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::abi::ibv_cq;
use crate::error::{at_most, check};
use crate::{Completion, CompletionChannel, Context, VerbsError};

/// A completion queue. Clones are handles of the same queue.
///
/// Polling never blocks. Several threads may poll, and each completion is returned once.
#[derive(Clone, Debug)]
pub struct Cq(Arc<CqOwner>);

#[derive(Debug)]
struct CqOwner {
    context: Context,
    raw: NonNull<ibv_cq>,
    /// Kept alive while the queue may send notifications to it.
    _channel: Option<CompletionChannel>,
}

// SAFETY: libibverbs may be called from any thread and locks inside; the pointer stays valid until
// `drop`.
unsafe impl Send for CqOwner {}
// SAFETY: as above.
unsafe impl Sync for CqOwner {}

impl Context {
    /// Creates a completion queue of at least `entries`, whose notifications go to `channel`.
    ///
    /// # Errors
    /// [`VerbsError::OutOfRange`], [`VerbsError::OtherContext`], [`VerbsError::Refused`].
    pub fn create_cq(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Cq, VerbsError> {
        let asked = at_most("completion queue entries", entries, i32::MAX as u32)?;
        let raw_channel = match channel {
            Some(channel) => {
                self.require_same("the completion channel", channel.context())?;
                channel.raw()
            }
            None => ptr::null_mut(),
        };
        // SAFETY: the context is open, and the channel is null or belongs to it.
        let raw = unsafe {
            let create = self.symbols().ibv_create_cq;
            create(self.raw(), asked as i32, ptr::null_mut(), raw_channel, 0)
        };
        let raw = self.made("ibv_create_cq", || format!("{entries} entries"), raw)?;
        let owner = CqOwner { context: self.clone(), raw, _channel: channel.cloned() };
        Ok(Cq(Arc::new(owner)))
    }
}

impl Cq {
    /// Returns the capacity in completions. The owner must not have more work requests outstanding,
    /// because an overflow destroys the queue.
    pub fn entries(&self) -> u32 {
        // SAFETY: the queue is alive, and libibverbs sets the field when it creates the queue.
        u32::try_from(unsafe { (*self.raw()).cqe }).unwrap_or(0)
    }

    /// Takes and returns up to `out.len()` completions, the oldest first.
    ///
    /// # Errors
    /// [`VerbsError::Refused`]: the queue or the device has failed.
    pub fn poll<'a>(&self, out: &'a mut [Completion]) -> Result<&'a [Completion], VerbsError> {
        let cq = self.raw();
        let room = i32::try_from(out.len()).unwrap_or(i32::MAX);
        // SAFETY: the queue and its context are alive.
        let Some(poll_cq) = (unsafe { (*(*cq).context).ops.poll_cq }) else {
            return Err(self.unable("ibv_poll_cq"));
        };
        // SAFETY: `out` has room for this many `ibv_wc`, and a `Completion` is an `ibv_wc`.
        let taken = unsafe { poll_cq(cq, room, out.as_mut_ptr().cast()) };
        match usize::try_from(taken) {
            Ok(taken) => Ok(&out[..taken]),
            // Drivers return -1, or -2 for a damaged queue. Neither is an errno.
            Err(_) => {
                let source = std::io::Error::other(format!("the driver returned {taken}"));
                Err(self.0.context.refused("ibv_poll_cq", "", source))
            }
        }
    }

    /// Arms the queue: the next completion makes its channel readable once.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn request_notify(&self) -> Result<(), VerbsError> {
        const CALL: &str = "ibv_req_notify_cq";
        let cq = self.raw();
        // SAFETY: the queue and its context are alive.
        let Some(req_notify_cq) = (unsafe { (*(*cq).context).ops.req_notify_cq }) else {
            return Err(self.unable(CALL));
        };
        // SAFETY: as above.
        let code = unsafe { req_notify_cq(cq, 0) };
        check(code).map_err(|e| self.0.context.refused(CALL, "", e))
    }

    fn unable(&self, call: &'static str) -> VerbsError {
        self.0.context.refused(call, "", std::io::Error::from_raw_os_error(libc::ENOSYS))
    }

    pub(crate) fn raw(&self) -> *mut ibv_cq {
        self.0.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }
}

impl Drop for CqOwner {
    fn drop(&mut self) {
        // SAFETY: this was the last handle, and every queue pair that uses the queue held one.
        let code = unsafe { (self.context.symbols().ibv_destroy_cq)(self.raw.as_ptr()) };
        self.context.unmade("ibv_destroy_cq", code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn polling_returns_what_there_is_in_order() {
        let fake = fake::Device::new();
        let cq = fake.open().create_cq(16, None).expect("a queue");
        let mut room = [Completion::default(); 4];
        assert!(cq.poll(&mut room).expect("works").is_empty());
        (0..6).for_each(|id| fake.complete(id));
        let ids = |got: &[Completion]| got.iter().map(Completion::id).collect::<Vec<_>>();
        assert_eq!(ids(cq.poll(&mut room).expect("works")), [0, 1, 2, 3]);
        assert_eq!(ids(cq.poll(&mut room).expect("works")), [4, 5]);
        assert!(cq.poll(&mut []).expect("works").is_empty());
    }

    #[test]
    fn a_damaged_queue_is_an_error() {
        let fake = fake::Device::new().failing("poll_cq");
        let cq = fake.open().create_cq(16, None).expect("a queue");
        let text = cq.poll(&mut [Completion::default()]).expect_err("damaged").to_string();
        assert!(text.contains("fake0: ibv_poll_cq failed"), "{text}");
    }

    #[test]
    fn a_refused_size_is_named() {
        let fake = fake::Device::new().failing("ibv_create_cq");
        let text = fake.open().create_cq(1 << 30, None).expect_err("refused").to_string();
        assert!(text.contains("fake0: ibv_create_cq failed (1073741824 entries)"), "{text}");
        let text = fake.open().create_cq(u32::MAX, None).expect_err("too many").to_string();
        assert_eq!(text, "completion queue entries 4294967295 is out of range: at most 2147483647");
    }

    #[test]
    fn a_channel_of_another_opening_is_refused() {
        let fake = fake::Device::new();
        let channel = fake.open().create_channel().expect("a channel");
        let error = fake.open().create_cq(1, Some(&channel)).expect_err("of another");
        assert!(error.to_string().starts_with("the completion channel belongs to another"));
    }
}
