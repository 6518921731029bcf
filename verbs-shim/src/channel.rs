//! Completion channels: descriptors that become readable when a completion queue has a completion.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{io, ptr};

use crate::abi::ibv_comp_channel;
use crate::descriptor::set_non_blocking;
use crate::{Context, VerbsError};

/// A completion channel. It becomes readable when a completion arrives in a queue that was made
/// with it and armed by [`Cq::request_notify`](crate::Cq::request_notify). Clones are handles of
/// the same channel.
///
/// To lose no wake-up: drain, arm, poll the queue until it is empty, and only then sleep.
#[derive(Clone, Debug)]
pub struct CompletionChannel(Arc<ChannelOwner>);

#[derive(Debug)]
struct ChannelOwner {
    context: Context,
    raw: NonNull<ibv_comp_channel>,
}

// SAFETY: libibverbs may be called from any thread; the pointer stays valid until `drop`.
unsafe impl Send for ChannelOwner {}
// SAFETY: as above.
unsafe impl Sync for ChannelOwner {}

impl Context {
    /// Creates a completion channel.
    ///
    /// # Errors
    /// [`VerbsError::Refused`].
    pub fn create_channel(&self) -> Result<CompletionChannel, VerbsError> {
        const CALL: &str = "ibv_create_comp_channel";
        // SAFETY: the context is open.
        let raw = unsafe { (self.symbols().ibv_create_comp_channel)(self.raw()) };
        let raw = self.made(CALL, String::new, raw)?;
        let channel = CompletionChannel(Arc::new(ChannelOwner { context: self.clone(), raw }));
        set_non_blocking(channel.as_fd()).map_err(|e| self.refused("fcntl", "O_NONBLOCK", e))?;
        Ok(channel)
    }
}

impl CompletionChannel {
    /// Takes and acknowledges all pending notifications, each of which has disarmed its queue.
    /// Returns their number.
    ///
    /// # Errors
    /// [`VerbsError::Refused`]; `EIO` means that the device is gone.
    pub fn drain(&self) -> Result<usize, VerbsError> {
        let symbols = self.0.context.symbols();
        let mut count = 0;
        loop {
            let (mut cq, mut user) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is alive, and each pointer receives a pointer.
            let code =
                unsafe { (symbols.ibv_get_cq_event)(self.raw(), &raw mut cq, &raw mut user) };
            if code != 0 {
                let source = io::Error::last_os_error();
                return match source.kind() {
                    io::ErrorKind::WouldBlock => Ok(count),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(self.0.context.refused("ibv_get_cq_event", "", source)),
                };
            }
            // SAFETY: the queue lives at least until its event is acknowledged, because its
            // destruction waits for that.
            unsafe { (symbols.ibv_ack_cq_events)(cq, 1) };
            count += 1;
        }
    }

    pub(crate) fn raw(&self) -> *mut ibv_comp_channel {
        self.0.raw.as_ptr()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel's descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).fd) }
    }
}

impl Drop for ChannelOwner {
    fn drop(&mut self) {
        // SAFETY: this was the last handle, and every queue that uses the channel held one.
        let code = unsafe { (self.context.symbols().ibv_destroy_comp_channel)(self.raw.as_ptr()) };
        self.context.unmade("ibv_destroy_comp_channel", code);
    }
}

#[cfg(test)]
mod tests {
    use crate::fake;

    #[test]
    fn draining_takes_and_acknowledges_all() {
        let fake = fake::Device::new();
        let context = fake.open();
        let channel = context.create_channel().expect("a channel");
        let cq = context.create_cq(8, Some(&channel)).expect("a queue");
        assert_eq!(channel.drain().expect("works"), 0);
        fake.notify(cq.raw());
        fake.notify(cq.raw());
        assert_eq!(channel.drain().expect("works"), 2);
        assert_eq!(fake.took("ibv_ack_cq_events"), 2);
    }
}
