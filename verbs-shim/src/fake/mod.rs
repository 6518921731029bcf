//! A fake libibverbs for tests, with one device. It moves no bytes, but records its calls. The test
//! decides what arrives at its queue pairs, and the fate of what they send.
//!
//! The state belongs to the thread. A test makes one [`Device`].

mod functions;
mod queues;
mod state;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, ptr};

use crate::abi::*;
use functions::SYMBOLS;
use state::{State, with};

pub(crate) use state::{Extension, Sent};

use crate::{Context, Gid, Qp, QpInit, QpKind, Route};

/// The device `fake0`.
#[derive(Debug)]
pub struct Device {
    sysfs: PathBuf,
}

impl Default for Device {
    fn default() -> Self {
        Device::new()
    }
}

impl Device {
    /// Creates the device of this thread, without any objects or work requests.
    ///
    /// # Panics
    /// Panics if its files cannot be created.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let sysfs = std::env::temp_dir().join(format!("braid-fake-{}-{count}", std::process::id()));
        let types = sysfs.join("fake0/ports/1/gid_attrs/types");
        fs::create_dir_all(&types).expect("a folder for the test");
        for (index, text) in ["RoCE v2\n", "IB/RoCE v1\n", "RoCE v2\n"].iter().enumerate() {
            fs::write(types.join(index.to_string()), text).expect("a file for the test");
        }
        with(|state| *state = State { room: usize::MAX, ..State::default() });
        Device { sysfs }
    }

    pub(crate) fn extension(self, extension: Extension) -> Self {
        with(|state| state.extension = extension);
        self
    }

    /// Makes all calls of this function fail.
    pub(crate) fn failing(self, function: &'static str) -> Self {
        self.set_failing(Some(function));
        self
    }

    /// From now on, makes all calls of this function fail, and of no other.
    pub fn set_failing(&self, function: Option<&'static str>) {
        with(|state| state.failing = function);
    }

    /// Limits the number of work requests that can be posted.
    pub(crate) fn room(self, room: usize) -> Self {
        with(|state| state.room = room);
        self
    }

    pub(crate) fn without_sysfs(self) -> Self {
        fs::remove_dir_all(&self.sysfs).expect("it is there");
        self
    }

    pub(crate) fn symbols(&self) -> &'static Symbols {
        &SYMBOLS
    }

    /// Opens the device.
    ///
    /// # Panics
    /// Panics if the opening is set to fail.
    pub fn open(&self) -> Context {
        self.try_open().expect("fake0 opens")
    }

    pub(crate) fn try_open(&self) -> Result<Context, crate::VerbsError> {
        Context::open_with(&SYMBOLS, "fake0", Path::new(&self.sysfs))
    }

    /// Returns the number of calls of this function.
    pub fn took(&self, function: &str) -> usize {
        with(|state| state.took.iter().filter(|took| **took == function).count())
    }

    /// Returns all calls in order.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        with(|state| state.took.clone())
    }

    /// Returns the objects that were made and not destroyed.
    pub fn alive(&self) -> Vec<&'static str> {
        with(|state| state.alive.clone())
    }

    pub(crate) fn raise(&self, event_type: u32, element: AsyncElement) {
        // SAFETY: zeros, then one of the members: 8 bytes, which a pointer fills.
        let bits = unsafe {
            let mut all = AsyncElement { qp: ptr::null_mut() };
            match event_type {
                IBV_EVENT_QP_ACCESS_ERR => all.qp = element.qp,
                _ => all.port_num = element.port_num,
            }
            all.qp.expose_provenance()
        };
        with(|state| state.events.push_back((event_type, bits)));
    }

    pub(crate) fn notify(&self, cq: *mut ibv_cq) {
        with(|state| state.notifications.push_back(cq));
    }

    pub(crate) fn complete(&self, id: u64) {
        with(|state| state.completions.push_back(id));
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        with(|state| state.sent.clone())
    }

    /// Delivers a message to a queue pair, whose oldest receive takes it. Returns whether there was
    /// a receive that was long enough.
    pub fn deliver(&self, qp: u32, message: &[u8]) -> bool {
        with(|state| state.queues.deliver(qp, message))
    }

    /// Delivers a WRITE of `len` bytes with immediate data to a queue pair. Returns whether it had
    /// a receive.
    pub fn deliver_imm(&self, qp: u32, imm: u32, len: u32) -> bool {
        with(|state| state.queues.deliver_imm(qp, imm, len))
    }

    /// Fails a queue pair: all its work requests are flushed, now and until it is reset.
    pub fn flush(&self, qp: u32) {
        with(|state| state.queues.flush(qp));
    }

    /// Completes all sends up to now.
    pub fn finish_sends(&self) {
        with(|state| state.queues.finish_sends());
    }

    /// Returns whether more work requests were ever posted for a completion queue than it has
    /// entries.
    pub fn is_overcommitted(&self) -> bool {
        with(|state| state.queues.is_overcommitted())
    }

    /// Returns masks and attributes of all calls of `ibv_modify_qp`.
    pub(crate) fn modified(&self) -> Vec<(u32, ibv_qp_attr)> {
        with(|state| state.modified.clone())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The folder may be gone already; see `without_sysfs`.
        let _ = fs::remove_dir_all(&self.sysfs);
    }
}

/// Creates a queue pair with its domain and queue.
pub(crate) fn queue_pair(context: &Context, kind: QpKind) -> Qp {
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(16, None).expect("a queue");
    pd.create_qp(&qp_init(kind, &cq)).expect("a queue pair")
}

pub(crate) fn qp_init(kind: QpKind, cq: &crate::Cq) -> QpInit<'_> {
    QpInit {
        kind,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        max_send_wr: 256,
        max_recv_wr: 16,
        max_send_sge: 2,
        max_recv_sge: 1,
        max_inline: 32,
    }
}

pub(crate) fn route() -> Route {
    Route {
        port: 1,
        dgid: Gid::from(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))),
        sgid_index: 2,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    }
}
