//! Non-blocking connection. The engine's `connect` waits for the peer, but NCCL's must not block.
//! Each attempt therefore waits in its own thread, which ends with the attempt.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use braid::{ConnectError, spawn_without_signals};

use crate::comm::{Comm, SendComm};
use crate::device_context::{DeviceContext, random};
use crate::error::Error;
use crate::greeting::{greeting, wanted_listener};
use crate::handle::{Address, HANDLE_LEN, HandleError, attempt, set_attempt};
use crate::traffic_class::TrafficClass;

/// NCCL polls an attempt repeatedly. An attempt that was not polled for this time is abandoned.
const ABANDONED: Duration = Duration::from_secs(10);
/// Stack size of the waiting thread, which does little.
const STACK: usize = 256 << 10;

/// The current attempts by the number in their handles.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<HashMap<u64, Attempt>>);

impl Attempts {
    /// Starts to connect, or returns the result of the attempt. `None` means that the attempt
    /// continues. The handle, which NCCL passes each time, stores the attempt's number.
    ///
    /// # Errors
    /// If the handle does not belong to this plugin, the system lacks a resource, or the peer did
    /// not accept. The attempt has then ended.
    pub(crate) fn connect(
        &self,
        context: impl FnOnce() -> Result<Arc<DeviceContext>, Error>,
        handle: &mut [u8; HANDLE_LEN],
        traffic_class: TrafficClass,
    ) -> Result<Option<Arc<Comm>>, Error> {
        let address = Address::from_handle(handle)?;
        let number = attempt(handle);
        if number == 0 {
            let number = random().max(1);
            let begun = Attempt::begin(context()?, address, traffic_class)?;
            self.table().insert(number, begun);
            set_attempt(handle, number);
            return Ok(None);
        }
        let mut table = self.table();
        let attempt = table.get_mut(&number).ok_or(HandleError::Attempt)?;
        attempt.asked_at = Instant::now();
        if !attempt.has_ended() {
            return Ok(None);
        }
        let ended = table.remove(&number).ok_or(HandleError::Attempt)?;
        drop(table);
        set_attempt(handle, 0);
        Ok(Some(Comm::send(ended.finish(address)?)))
    }

    /// Drops abandoned attempts.
    pub(crate) fn drop_abandoned(&self) {
        let abandoned = |_: &u64, attempt: &mut Attempt| attempt.asked_at.elapsed() > ABANDONED;
        let ended: Vec<_> = self.table().extract_if(abandoned).collect();
        drop(ended);
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt. Dropping it cancels it.
struct Attempt {
    comm: Option<SendComm>,
    thread: Option<JoinHandle<Result<Vec<u8>, ConnectError>>>,
    asked_at: Instant,
}

impl Attempt {
    fn begin(
        context: Arc<DeviceContext>,
        address: Address,
        traffic_class: TrafficClass,
    ) -> Result<Self, Error> {
        let timeout = context.connect_timeout();
        let peer = on_our_link(address.engine, context.local_addr());
        let comm = SendComm::new(context, peer)?;
        let qp = comm.queue_pair();
        traffic_class.apply(&qp);
        let connect = move || qp.connect(peer, &greeting(address.listener), timeout);
        let thread = thread::Builder::new().name("braid-connect".to_owned()).stack_size(STACK);
        let thread = spawn_without_signals(thread, connect).map_err(Error::Thread)?;
        Ok(Attempt { comm: Some(comm), thread: Some(thread), asked_at: Instant::now() })
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn finish(mut self, address: Address) -> Result<SendComm, Error> {
        let thread = self.thread.take().expect("present until the attempt has ended");
        let answer = thread.join().expect("connecting does not panic")?;
        if wanted_listener(&answer) != Some(address.listener) {
            return Err(Error::Greeting { peer: address.engine });
        }
        Ok(self.comm.take().expect("present until the attempt has ended"))
    }
}

/// Replaces the scope of a link-local peer address by that of our device, because hosts number
/// their links differently.
pub(crate) fn on_our_link(peer: SocketAddr, local: SocketAddr) -> SocketAddr {
    match (peer, local) {
        (SocketAddr::V6(mut peer), SocketAddr::V6(local)) if peer.ip().is_unicast_link_local() => {
            peer.set_scope_id(local.scope_id());
            peer.into()
        }
        _ => peer,
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if let Some(comm) = &self.comm {
            // Repeats the call, because the thread may just be about to start.
            while !thread.is_finished() {
                comm.queue_pair().disconnect();
                thread::sleep(Duration::from_millis(1));
            }
        }
        // The result no longer matters.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    #[test]
    fn link_local_peers_are_on_the_link_of_the_device() {
        let local = SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, 7).into();
        let peer = |text: &str| on_our_link(text.parse().unwrap(), local);
        let expected = SocketAddrV6::new("fe80::2".parse().unwrap(), 9, 0, 7);
        assert_eq!(peer("[fe80::2]:9"), expected.into());
        assert_eq!(peer("[fd00::2]:9"), "[fd00::2]:9".parse().unwrap());
    }
}
