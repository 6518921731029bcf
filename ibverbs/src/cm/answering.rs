//! Answering a request.

use std::sync::Arc;

use super::exchange::PendingAnswer;
use super::id::IdShared;
use super::message::CmMessage;
use crate::errno::Errno;
use crate::messages::Link;

/// Takes the request that the program answers.
///
/// # Errors
/// `EINVAL`: there is no request, or it was answered.
pub(super) fn take_request(shared: &IdShared) -> Result<(Arc<Link>, PendingAnswer), Errno> {
    shared.connection().answer().ok_or(Errno::INVALID)
}

/// Answers a request, and closes the link.
///
/// # Errors
/// `EINVAL`: the request was answered. `ECONNRESET`: the other end is gone.
pub(super) fn answer(shared: &IdShared, message: &CmMessage) -> Result<(), Errno> {
    let (link, reply) = take_request(shared)?;
    let given = reply.send(&link, message);
    shared.connection().close();
    given.map(drop).map_err(|_| Errno(libc::ECONNRESET))
}
