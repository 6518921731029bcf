//! Both ends of a connection in one process, driven by one thread, like NCCL's proxy thread.

use std::cell::RefCell;
use std::ffi::c_int;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use crate::handle::Handle;
use crate::net::{Code, HOST, NULL, Net, Opaque, Recv, SUCCESS, Send};

/// Time after which a check assumes a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The verdict of a check. The error states the actual behaviour.
pub(crate) type Verdict<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(crate) use ensure;

/// Fails unless a call has returned this code.
pub(crate) fn returns(call: &str, code: Code, expected: Code) -> Verdict {
    ensure!(code == expected, "{call} returned {code} instead of {expected}");
    Ok(())
}

/// Polls as NCCL's proxy does: it yields whenever there was nothing to do.
pub(crate) fn until<T>(what: &str, mut poll: impl FnMut() -> Verdict<Option<T>>) -> Verdict<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "{what}: nothing within {PATIENCE:?}");
        thread::yield_now();
    }
}

/// Memory that is registered with a communicator.
pub(crate) struct Memory<'n> {
    net: &'n Net,
    comm: Opaque,
    bytes: Vec<u64>,
    pub(crate) mhandle: Opaque,
}

impl<'n> Memory<'n> {
    pub(crate) fn new(net: &'n Net, comm: Opaque, len: usize) -> Verdict<Self> {
        let mut bytes = vec![0u64; len.div_ceil(8).max(1)];
        let mut mhandle = ptr::null_mut();
        let start = bytes.as_mut_ptr().cast();
        returns(
            "regMr",
            net.reg_mr(comm, start, bytes.len() * 8, HOST, &raw mut mhandle),
            SUCCESS,
        )?;
        Ok(Memory { net, comm, bytes, mhandle })
    }

    pub(crate) fn at(&mut self, offset: usize) -> *mut u8 {
        self.bytes.as_mut_ptr().cast::<u8>().wrapping_add(offset)
    }

    /// Fills a part with bytes that differ by place and seed.
    pub(crate) fn fill(&mut self, offset: usize, len: usize, seed: u64) {
        self.part_mut(offset, len).iter_mut().enumerate().for_each(|(i, b)| *b = pattern(i, seed));
    }

    /// Whether a part holds what [`Memory::fill`] put into it elsewhere.
    pub(crate) fn holds(&self, offset: usize, len: usize, seed: u64) -> bool {
        self.part(offset, len).iter().enumerate().all(|(i, byte)| *byte == pattern(i, seed))
    }

    pub(crate) fn part(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.bytes.len() * 8);
        // SAFETY: the part lies in the vector, and the plugin has reported it done.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast::<u8>().add(offset), len) }
    }

    fn part_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.bytes.len() * 8);
        // SAFETY: the part lies in the vector, and is not in use by the plugin.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset), len) }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        self.net.dereg_mr(self.comm, self.mhandle);
    }
}

/// Returns a byte that differs by place and seed.
pub(crate) fn pattern(place: usize, seed: u64) -> u8 {
    let mixed = (place as u64 ^ seed << 24).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

/// A request of the plugin's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request(pub(crate) Opaque);

/// A sending and a receiving communicator that are connected, or one of them.
pub(crate) struct Pair<'n> {
    pub(crate) net: &'n Net,
    pub(crate) send: Opaque,
    pub(crate) recv: Opaque,
    /// Requests in the order in which they were made, with how they ended.
    requests: RefCell<Vec<(Request, Ended)>>,
}

// SAFETY: NCCL's plugins take calls from any thread, one at a time for each communicator, and a
// pair goes from one thread to another as a whole.
unsafe impl std::marker::Send for Pair<'_> {}

/// `None`: not yet.
type Ended = Option<Result<[c_int; 8], Code>>;

impl<'n> Pair<'n> {
    /// Connects over a device.
    pub(crate) fn new(net: &'n Net, ctx: Opaque, device: c_int) -> Verdict<Self> {
        Pair::between(net, ctx, device, device)
    }

    /// Connects one device with another.
    pub(crate) fn between(net: &'n Net, ctx: Opaque, from: c_int, to: c_int) -> Verdict<Self> {
        let (listener, mut handle) = listen(net, ctx, to)?;
        let (mut send, mut recv) = (NULL, NULL);
        until("connect and accept", || {
            if send.is_null() {
                returns(
                    "connect",
                    net.connect(ctx, from, &raw mut handle, &raw mut send),
                    SUCCESS,
                )?;
            }
            if recv.is_null() {
                returns("accept", net.accept(listener, &raw mut recv), SUCCESS)?;
            }
            Ok((!send.is_null() && !recv.is_null()).then_some(()))
        })?;
        returns("closeListen", net.close_listen(listener), SUCCESS)?;
        Ok(Pair::of(net, send, recv))
    }

    /// The sending end of a connection to who listens with this handle, once that is accepted.
    pub(crate) fn sending(net: &'n Net, ctx: Opaque, handle: Handle) -> Verdict<Self> {
        Pair::sending_over(net, ctx, 0, handle)
    }

    /// As [`Pair::sending`], over this device.
    pub(crate) fn sending_over(
        net: &'n Net,
        ctx: Opaque,
        device: c_int,
        mut handle: Handle,
    ) -> Verdict<Self> {
        let mut send = NULL;
        until("connect", || {
            returns("connect", net.connect(ctx, device, &raw mut handle, &raw mut send), SUCCESS)?;
            Ok((!send.is_null()).then_some(()))
        })?;
        Ok(Pair::of(net, send, NULL))
    }

    /// The receiving end of the next connection to this listener.
    pub(crate) fn receiving(net: &'n Net, listener: Opaque) -> Verdict<Self> {
        let mut recv = NULL;
        until("accept", || {
            returns("accept", net.accept(listener, &raw mut recv), SUCCESS)?;
            Ok((!recv.is_null()).then_some(()))
        })?;
        Ok(Pair::of(net, NULL, recv))
    }

    /// Creates a pair of existing communicators, NULL where there is only one.
    pub(crate) fn of(net: &'n Net, send: Opaque, recv: Opaque) -> Self {
        Pair { net, send, recv, requests: RefCell::default() }
    }

    /// Registers memory for sending and for receiving.
    pub(crate) fn memory(&self, len: usize) -> Verdict<(Memory<'n>, Memory<'n>)> {
        Ok((Memory::new(self.net, self.send, len)?, Memory::new(self.net, self.recv, len)?))
    }

    /// Sends; it has to be taken within [`PATIENCE`].
    pub(crate) fn isend(
        &self,
        from: &mut Memory<'_>,
        offset: usize,
        size: usize,
        tag: c_int,
    ) -> Verdict<Request> {
        until("isend", || self.try_isend(from, offset, size, tag))
    }

    /// Sends, if the plugin takes it now.
    pub(crate) fn try_isend(
        &self,
        from: &mut Memory<'_>,
        offset: usize,
        size: usize,
        tag: c_int,
    ) -> Verdict<Option<Request>> {
        let (data, mhandle) = (from.at(offset), from.mhandle);
        let send = Send { comm: self.send, data, size, tag, mhandle, phandle: ptr::null_mut() };
        let mut request = STRANGE;
        returns("isend", self.net.isend(&send, &raw mut request), SUCCESS)?;
        self.taken("isend", request)
    }

    /// Receives into parts, (offset, size, tag) each.
    pub(crate) fn irecv(
        &self,
        to: &mut Memory<'_>,
        parts: &[(usize, usize, c_int)],
    ) -> Verdict<Request> {
        until("irecv", || self.try_irecv(to, parts))
    }

    /// Receives, if the plugin takes it now.
    pub(crate) fn try_irecv(
        &self,
        to: &mut Memory<'_>,
        parts: &[(usize, usize, c_int)],
    ) -> Verdict<Option<Request>> {
        let mut request = STRANGE;
        let code = self.net.irecv(&mut self.receive(to, parts), &raw mut request);
        returns("irecv", code, SUCCESS)?;
        self.taken("irecv", request)
    }

    /// The arguments of such an `irecv`.
    pub(crate) fn receive(&self, to: &mut Memory<'_>, parts: &[(usize, usize, c_int)]) -> Recv {
        Recv {
            comm: self.recv,
            n: parts.len() as c_int,
            data: parts.iter().map(|part| to.at(part.0).cast()).collect(),
            sizes: parts.iter().map(|part| part.1).collect(),
            tags: parts.iter().map(|part| part.2).collect(),
            mhandles: vec![to.mhandle; parts.len()],
            phandles: Vec::new(),
        }
    }

    /// The sizes, if the request is done; only this one is asked after.
    pub(crate) fn test(&self, request: Request) -> Verdict<Option<[c_int; 8]>> {
        let sizes = test(self.net, request).map_err(|code| format!("test returned {code}"))?;
        if sizes.is_some() {
            self.requests.borrow_mut().retain(|(known, _)| *known != request);
        }
        Ok(sizes)
    }

    /// Waits for a request; its sizes.
    pub(crate) fn wait(&self, request: Request) -> Verdict<[c_int; 8]> {
        let ended = until("test", || self.poll(request))?;
        ended.map_err(|code| format!("test returned {code}"))
    }

    /// Waits for a request to fail; the code.
    pub(crate) fn wait_for_failure(&self, request: Request) -> Verdict<Code> {
        match until("the failure of a request", || self.poll(request))? {
            Err(code) => Ok(code),
            Ok(_) => Err("the request is done instead of failing".to_owned()),
        }
    }

    /// Asks after all requests that have not ended, as the proxies at both ends do; how this one
    /// did.
    fn poll(&self, wanted: Request) -> Verdict<Ended> {
        let mut requests = self.requests.borrow_mut();
        for (request, ended) in requests.iter_mut().filter(|(_, ended)| ended.is_none()) {
            *ended = test(self.net, *request).transpose();
        }
        let at = requests.iter().position(|(request, _)| *request == wanted);
        let at = at.ok_or("a check waits for a request that is over")?;
        let ended = requests[at].1.take();
        if let Some(Ok(_)) = ended {
            requests.remove(at);
        }
        Ok(ended)
    }

    /// Returns the contents of a request's place after a call.
    fn taken(&self, call: &str, request: Opaque) -> Verdict<Option<Request>> {
        ensure!(request != STRANGE, "{call} did not write `*request`");
        let request = (!request.is_null()).then_some(Request(request));
        self.requests.borrow_mut().extend(request.map(|request| (request, None)));
        Ok(request)
    }

    /// Asks no more after any request: a communicator is closed with some outstanding.
    pub(crate) fn forget_requests(&self) {
        self.requests.borrow_mut().clear();
    }

    /// Counts a request that was not made by [`Pair::isend`] or [`Pair::irecv`] among its own.
    pub(crate) fn adopt(&self, request: Opaque) -> Request {
        self.requests.borrow_mut().push((Request(request), None));
        Request(request)
    }

    /// Sends one message and receives it; it must arrive whole.
    pub(crate) fn exchange(&self, size: usize, seed: u64) -> Verdict {
        let (mut from, mut to) = self.memory(size + 64)?;
        from.fill(0, size, seed);
        let received = self.irecv(&mut to, &[(0, size + 64, 7)])?;
        let sent = self.isend(&mut from, 0, size, 7)?;
        let sizes = self.wait(received)?;
        ensure!(sizes[0] as usize == size, "{} bytes were reported instead of {size}", sizes[0]);
        self.wait(sent)?;
        ensure!(to.holds(0, size, seed), "a message of {size} bytes arrived damaged");
        ensure!(to.part(size, 64) == [0; 64], "bytes beyond the message's end were written");
        Ok(())
    }

    /// The sending and the receiving end, for a thread each.
    pub(crate) fn halves(self) -> (Self, Self) {
        (Pair::of(self.net, self.send, NULL), Pair::of(self.net, NULL, self.recv))
    }

    /// Closes what there is, the sending end first.
    pub(crate) fn close(self) -> Verdict {
        if !self.send.is_null() {
            returns("closeSend", self.net.close_send(self.send), SUCCESS)?;
        }
        if !self.recv.is_null() {
            returns("closeRecv", self.net.close_recv(self.recv), SUCCESS)?;
        }
        Ok(())
    }
}

/// The contents of a request's place before the call, which must always overwrite it.
const STRANGE: Opaque = 0x1 as Opaque;

/// A listening communicator and its handle.
pub(crate) fn listen(net: &Net, ctx: Opaque, device: c_int) -> Verdict<(Opaque, Handle)> {
    let (mut handle, mut listener) = (Handle([0; 128]), ptr::null_mut());
    returns("listen", net.listen(ctx, device, &raw mut handle, &raw mut listener), SUCCESS)?;
    ensure!(!listener.is_null(), "listen succeeded with a NULL communicator");
    Ok((listener, handle))
}

/// The sizes, if a request is done.
fn test(net: &Net, request: Request) -> Result<Option<[c_int; 8]>, Code> {
    let (mut done, mut sizes) = (-1, [-1; 8]);
    match net.test(request.0, &raw mut done, sizes.as_mut_ptr()) {
        SUCCESS => match done {
            0 => Ok(None),
            1 => Ok(Some(sizes)),
            other => panic!("test wrote {other} to `*done`"),
        },
        code => Err(code),
    }
}
