//! A rank: one process, which plays NCCL's proxy. Another process is the bootstrap network.

use std::cell::RefCell;
use std::ffi::c_int;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::gpu::Gpu;
use super::table::{RmaTable, Signal, Transfer};
use crate::handle::Handle;
use crate::net::{CUDA, Code, HOST, NULL, Opaque, SUCCESS};
use crate::pair::{Verdict, ensure, returns, until};

/// A line of a rank that takes part in an exchange.
pub(super) const GATHER: &str = "gather ";

/// A rank; see the module.
pub(super) struct Rank {
    pub(super) table: RmaTable,
    pub(super) rank: usize,
    pub(super) ranks: usize,
    pub(super) gpu: Option<Gpu>,
}

impl Rank {
    /// Exchanges bytes with all ranks, as NCCL's bootstrap network does.
    pub(super) fn gather(&self, bytes: &[u8]) -> Verdict<Vec<Vec<u8>>> {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{GATHER}{hex}").and_then(|()| out.flush()).map_err(text)?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(text)?;
        let parts: Vec<_> = line.split(' ').map(|part| part.trim().to_owned()).collect();
        ensure!(parts.len() == self.ranks, "the bootstrap network is gone: `{line}`");
        let byte = |part: &str, at| u8::from_str_radix(&part[at..at + 2], 16).map_err(text);
        let bytes = |part: &String| (0..part.len()).step_by(2).map(|at| byte(part, at)).collect();
        parts.iter().map(bytes).collect()
    }

    /// Waits for all ranks.
    pub(super) fn barrier(&self) -> Verdict {
        self.gather(&[1]).map(drop)
    }

    pub(super) fn gpu(&self) -> &Gpu {
        self.gpu.as_ref().expect("the check asks for a GPU")
    }
}

/// A plugin that is initialised, and a listener of this rank.
pub(super) struct Listening<'r> {
    pub(super) rank: &'r Rank,
    pub(super) ctx: Opaque,
    listener: Opaque,
    pub(super) handles: Vec<Handle>,
}

impl<'r> Listening<'r> {
    pub(super) fn new(rank: &'r Rank) -> Verdict<Self> {
        let ctx = rank.table.init().map_err(|code| format!("init returned {code}"))?;
        ensure!(rank.table.devices().is_ok_and(|count| count > 0), "there is no device");
        let (mut handle, mut listener) = (Handle([0; 128]), NULL);
        let place = (&raw mut handle).cast();
        returns("listen", rank.table.listen(ctx, place, &raw mut listener), SUCCESS)?;
        let handles = rank.gather(&handle.0)?;
        let handle = |bytes: &Vec<u8>| bytes.as_slice().try_into().map(Handle).map_err(text);
        let handles = handles.iter().map(handle).collect::<Verdict<_>>()?;
        Ok(Listening { rank, ctx, listener, handles })
    }

    /// Calls `connect` with the handles.
    pub(super) fn connect(&mut self, coll: *mut Opaque) -> Code {
        let handles = self.handles.iter_mut().map(|handle| (&raw mut *handle).cast::<_>());
        let mut handles: Vec<Opaque> = handles.collect();
        self.rank.table.connect(&mut handles, self.rank.rank as c_int, self.listener, coll)
    }

    pub(super) fn close(self) -> Verdict {
        returns("closeListen", self.rank.table.close_listen(self.listener), SUCCESS)
    }
}

/// A group of all ranks.
pub(super) struct Group<'r> {
    pub(super) rank: &'r Rank,
    ctx: Opaque,
    pub(super) coll: Opaque,
}

impl<'r> Group<'r> {
    pub(super) fn new(rank: &'r Rank) -> Verdict<Self> {
        let mut listening = Listening::new(rank)?;
        let mut coll = NULL;
        returns("connect", listening.connect(&raw mut coll), SUCCESS)?;
        let ctx = listening.ctx;
        listening.close()?;
        Ok(Group { rank, ctx, coll })
    }

    pub(super) fn table(&self) -> &'r RmaTable {
        &self.rank.table
    }

    pub(super) fn contexts(&self, contexts: c_int) -> Verdict<Contexts<'_>> {
        self.contexts_of_stride(contexts, 1)
    }

    pub(super) fn contexts_of_stride(
        &self,
        contexts: c_int,
        stride: c_int,
    ) -> Verdict<Contexts<'_>> {
        let mut ctx = NULL;
        let code = self.table().create_context(self.coll, contexts, stride, &raw mut ctx);
        returns("createContext", code, SUCCESS)?;
        Ok(Contexts { group: self, ctx, requests: RefCell::default() })
    }

    /// Ends everything. All ranks do so, so nobody puts any more.
    pub(super) fn close(self) -> Verdict {
        let table = self.table();
        returns("closeColl", table.close_coll(self.coll), SUCCESS)?;
        returns("finalize", table.finalize(self.ctx), SUCCESS)
    }
}

/// Memory of the host or the GPU that all ranks have registered.
pub(super) struct RankMemory<'g> {
    group: &'g Group<'g>,
    addr: u64,
    len: usize,
    is_device: bool,
    pub(super) mhandle: Opaque,
    /// The memory of the host. Peers write to it, so it is reached by its address only.
    _bytes: Vec<AtomicU64>,
}

impl<'g> RankMemory<'g> {
    /// Registers memory of the GPU if the check has one, otherwise of the host.
    pub(super) fn new(group: &'g Group<'g>, len: usize) -> Verdict<Self> {
        RankMemory::of_kind(group, len, group.rank.gpu.is_some())
    }

    pub(super) fn of_kind(group: &'g Group<'g>, len: usize, is_device: bool) -> Verdict<Self> {
        let words = if is_device { 0 } else { len.div_ceil(8) };
        let bytes: Vec<_> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let (addr, kind) = match is_device {
            true => (group.rank.gpu().allocate(len)?, CUDA),
            false => (bytes.as_ptr() as u64, HOST),
        };
        if is_device {
            group.rank.gpu().poke(addr, &vec![0; len]);
        }
        let mut mhandle = NULL;
        let code = group.table().reg_mr_sym(group.coll, addr, len, kind, &raw mut mhandle);
        returns("regMrSym", code, SUCCESS)?;
        Ok(RankMemory { group, addr, len, is_device, mhandle, _bytes: bytes })
    }

    pub(super) fn at(&self, offset: usize) -> (Opaque, u64) {
        (self.mhandle, offset as u64)
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        let start = self.addr + offset as u64;
        if self.is_device {
            return self.group.rank.gpu().poke(start, bytes);
        }
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: the byte lies in the memory; the engine reads it at the same time at most.
            let place = unsafe { AtomicU8::from_ptr((start + at as u64) as *mut u8) };
            place.store(*byte, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        let start = self.addr + offset as u64;
        let mut bytes = vec![0; len];
        if self.is_device {
            self.group.rank.gpu().peek(start, &mut bytes);
            return bytes;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the byte lies in the memory. Peers write to it by the engine at any time.
            let place = unsafe { AtomicU8::from_ptr((start + at as u64) as *mut u8) };
            *byte = place.load(Ordering::Relaxed);
        }
        bytes
    }

    /// The word of a signal, as a kernel polls it.
    pub(super) fn word(&self, offset: usize) -> u64 {
        if self.is_device {
            let word = self.read(offset, 8);
            return u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        }
        let place = (self.addr + offset as u64) as *mut u64;
        // SAFETY: the word lies in the memory and is aligned.
        unsafe { AtomicU64::from_ptr(place) }.load(Ordering::Acquire)
    }
}

impl Drop for RankMemory<'_> {
    fn drop(&mut self) {
        self.group.table().dereg_mr_sym(self.group.coll, self.mhandle);
    }
}

/// Contexts of a group, and their requests.
pub(super) struct Contexts<'g> {
    pub(super) group: &'g Group<'g>,
    pub(super) ctx: Opaque,
    requests: RefCell<Vec<Opaque>>,
}

impl Contexts<'_> {
    /// The arguments of a put of context `context` to a rank.
    pub(super) fn put(&self, context: usize, rank: usize) -> Transfer {
        let nothing = (NULL, 0);
        let (context, rank) = (context as c_int, rank as u32);
        Transfer { ctx: self.ctx, context, from: nothing, to: nothing, size: 0, rank }
    }

    pub(super) fn iput(&self, put: &Transfer) -> Verdict {
        self.begin("iput", |request| self.group.table().iput(put, request))
    }

    pub(super) fn iput_signal(&self, put: &Transfer, signal: &Signal) -> Verdict {
        let table = self.group.table();
        self.begin("iputSignal", |request| table.iput_signal(put, signal, request))
    }

    pub(super) fn iget(&self, get: &Transfer) -> Verdict {
        self.begin("iget", |request| self.group.table().iget(get, request))
    }

    pub(super) fn iflush(&self, context: usize, rank: usize) -> Verdict {
        let table = self.group.table();
        self.begin("iflush", |request| {
            table.iflush(self.ctx, context as c_int, NULL, rank as u32, request)
        })
    }

    fn begin(&self, call: &str, begin: impl FnOnce(*mut Opaque) -> Code) -> Verdict {
        let mut request = NULL;
        returns(call, begin(&raw mut request), SUCCESS)?;
        ensure!(!request.is_null(), "{call} succeeded without a request, which NCCL refuses");
        self.requests.borrow_mut().push(request);
        Ok(())
    }

    /// One turn of NCCL's proxy: its progress call, and a look at each request.
    pub(super) fn turn(&self) -> Verdict {
        returns("progress", self.group.table().progress(self.ctx), SUCCESS)?;
        let mut requests = std::mem::take(&mut *self.requests.borrow_mut());
        let mut failure = Ok(());
        requests.retain(|request| match self.test(*request) {
            Ok(done) => !done,
            Err(code) => {
                failure = Err(format!("test returned {code}"));
                false
            }
        });
        self.requests.borrow_mut().append(&mut requests);
        failure
    }

    pub(super) fn test(&self, request: Opaque) -> Result<bool, Code> {
        let mut done = -1;
        match self.group.table().test(self.group.coll, request, &raw mut done) {
            SUCCESS => Ok(done == 1),
            code => Err(code),
        }
    }

    /// The latest request.
    pub(super) fn last_request(&self) -> Opaque {
        *self.requests.borrow().last().expect("there is one")
    }

    /// Whether a request is not done.
    pub(super) fn has_request(&self, request: Opaque) -> bool {
        self.requests.borrow().contains(&request)
    }

    pub(super) fn outstanding(&self) -> usize {
        self.requests.borrow().len()
    }

    /// Turns until this holds.
    pub(super) fn turn_until(&self, what: &str, holds: impl Fn() -> bool) -> Verdict {
        until(what, || {
            self.turn()?;
            Ok(holds().then_some(()))
        })
    }

    /// Turns until all requests are done.
    pub(super) fn finish(&self) -> Verdict {
        self.turn_until("the requests", || self.outstanding() == 0)
    }

    pub(super) fn destroy(self) -> Verdict {
        returns("destroyContext", self.group.table().destroy_context(self.ctx), SUCCESS)
    }
}

pub(super) fn text(error: impl ToString + Sized) -> String {
    error.to_string()
}
