//! The plugin through one of its RMA tables, with a common interface for all of them. The layouts
//! are stated independently of the plugin.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use crate::logger;
use crate::net::{Code, NULL, Opaque, SUCCESS};
use crate::pair::Verdict;
use crate::table::{Properties, RawProperties, Table};

/// The members of all RMA tables, in the order of NCCL's headers.
pub(super) const MEMBERS: [&str; 21] = [
    "name",
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "createContext",
    "regMrSym",
    "regMrSymDmaBuf",
    "deregMrSym",
    "destroyContext",
    "closeColl",
    "closeListen",
    "iput",
    "iputSignal",
    "iget",
    "iflush",
    "test",
    "progress",
    "queryLastError",
    "finalize",
];

/// The version of the properties of all RMA tables.
const PROPERTIES: u32 = 12;

/// An open plugin.
pub(super) struct RmaTable {
    /// Holds the library open.
    _library: Library,
    table: *const *const c_void,
    /// Whether the members have their parts for the GPU: v13.
    has_device_parts: bool,
}

/// The arguments of a put or a get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) ctx: Opaque,
    pub(super) context: c_int,
    /// The local memory of a put, the remote one of a get.
    pub(super) from: (Opaque, u64),
    pub(super) to: (Opaque, u64),
    pub(super) size: usize,
    pub(super) rank: u32,
}

/// The arguments of a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) at: (Opaque, u64),
    pub(super) value: u64,
    pub(super) operation: u32,
    pub(super) is_strong: bool,
}

/// The function of a member, as the type that its version says.
macro_rules! call {
    ($rma:expr, $member:expr, fn($($ty:ty),* $(,)?), $($arg:expr),* $(,)?) => {{
        let address = $rma.pointer($member);
        assert!(!address.is_null(), "{} is NULL", $member);
        // SAFETY: the header of this version gives the member this type, and the arguments are what
        // the header asks for, or what the check wants to see refused.
        let function: unsafe extern "C" fn($($ty),*) -> Code = unsafe { std::mem::transmute(address) };
        // SAFETY: as above.
        unsafe { function($($arg),*) }
    }};
}

impl RmaTable {
    /// Opens the library as NCCL does.
    ///
    /// # Errors
    /// The plugin does not load, or lacks the table.
    pub(super) fn open(file: &Path, table: Table) -> Verdict<Self> {
        // SAFETY: loading runs the library's initialisers; it is the plugin under test.
        let library = unsafe { Library::new(file) }.map_err(|error| error.to_string())?;
        let symbol = table.symbol();
        // SAFETY: the symbol is a table of pointers.
        let found = unsafe { library.get::<*const c_void>(symbol.as_bytes()) };
        let found = found.map_err(|error| format!("{symbol}: {error}"))?;
        // The symbol is the table itself, not a pointer to it.
        // SAFETY: the library stays open for as long as the table is used.
        let pointers = unsafe { found.try_as_raw_ptr() }.ok_or("the symbol has no address")?;
        Ok(RmaTable {
            table: pointers.cast_const().cast(),
            has_device_parts: table != Table::Rma(14),
            _library: library,
        })
    }

    pub(super) fn pointer(&self, name: &str) -> *const c_void {
        let index = MEMBERS.iter().position(|known| *known == name).expect("a member");
        // SAFETY: the table has a pointer for each member.
        unsafe { *self.table.add(index) }
    }

    pub(super) fn init(&self) -> Result<Opaque, Code> {
        let mut ctx = NULL;
        let logger = logger::log as *const c_void;
        match call!(self, "init", fn(*mut Opaque, u64, *const c_void), &raw mut ctx, 0x99, logger) {
            SUCCESS => Ok(ctx),
            code => Err(code),
        }
    }

    pub(super) fn finalize(&self, ctx: Opaque) -> Code {
        call!(self, "finalize", fn(Opaque), ctx)
    }

    pub(super) fn devices(&self) -> Result<c_int, Code> {
        let mut count = -1;
        let code = call!(self, "devices", fn(*mut c_int), &raw mut count);
        if code == SUCCESS { Ok(count) } else { Err(code) }
    }

    pub(super) fn properties(&self, device: c_int) -> Verdict<Properties> {
        let mut raw = RawProperties::new();
        let place = raw.as_mut_ptr();
        match call!(self, "getProperties", fn(c_int, Opaque), device, place) {
            // SAFETY: the plugin says that it has filled them in.
            SUCCESS => unsafe { raw.read(PROPERTIES) },
            code => Err(format!("getProperties({device}) returned {code}")),
        }
    }

    pub(super) fn listen(&self, ctx: Opaque, handle: Opaque, comm: *mut Opaque) -> Code {
        call!(self, "listen", fn(Opaque, c_int, Opaque, *mut Opaque), ctx, 0, handle, comm)
    }

    /// The context is NULL: NCCL 2.30.7 passes that of the net plugin, which may be another one.
    pub(super) fn connect(
        &self,
        handles: &mut [Opaque],
        rank: c_int,
        listener: Opaque,
        comm: *mut Opaque,
    ) -> Code {
        call!(
            self,
            "connect",
            fn(Opaque, *mut Opaque, c_int, c_int, Opaque, *mut Opaque),
            NULL,
            handles.as_mut_ptr(),
            handles.len() as c_int,
            rank,
            listener,
            comm,
        )
    }

    /// `stride` is 1 in v13, which has none.
    pub(super) fn create_context(
        &self,
        comm: Opaque,
        contexts: c_int,
        stride: c_int,
        ctx: *mut Opaque,
    ) -> Code {
        if self.has_device_parts {
            let config: [c_int; 5] = [16, 16, contexts, 64, -1];
            call!(
                self,
                "createContext",
                fn(Opaque, *const c_int, *mut Opaque, *mut Opaque),
                comm,
                config.as_ptr(),
                ctx,
                ptr::null_mut(),
            )
        } else {
            let config: [c_int; 3] = [contexts, -1, stride];
            call!(
                self,
                "createContext",
                fn(Opaque, *const c_int, *mut Opaque),
                comm,
                config.as_ptr(),
                ctx,
            )
        }
    }

    pub(super) fn has_stride(&self) -> bool {
        !self.has_device_parts
    }

    pub(super) fn reg_mr_sym(
        &self,
        comm: Opaque,
        data: u64,
        size: usize,
        kind: c_int,
        mhandle: *mut Opaque,
    ) -> Code {
        let data = data as Opaque;
        // NCCL_NET_MR_FLAG_FORCE_SO.
        const FLAGS: u64 = 1;
        if self.has_device_parts {
            let mut gin = NULL;
            let code = call!(
                self,
                "regMrSym",
                fn(Opaque, Opaque, usize, c_int, u64, *mut Opaque, *mut Opaque),
                comm,
                data,
                size,
                kind,
                FLAGS,
                mhandle,
                &raw mut gin,
            );
            // SAFETY: the caller's place.
            let is_same = mhandle.is_null() || gin == unsafe { *mhandle };
            assert!(code != SUCCESS || is_same, "NCCL passes ginHandle to iput");
            code
        } else {
            call!(
                self,
                "regMrSym",
                fn(Opaque, Opaque, usize, c_int, u64, *mut Opaque),
                comm,
                data,
                size,
                kind,
                FLAGS,
                mhandle,
            )
        }
    }

    pub(super) fn reg_mr_sym_dma_buf(&self, comm: Opaque, mhandle: *mut Opaque) -> Code {
        let data = 0x1000 as Opaque;
        if self.has_device_parts {
            call!(
                self,
                "regMrSymDmaBuf",
                fn(Opaque, Opaque, usize, c_int, u64, c_int, u64, *mut Opaque, *mut Opaque),
                comm,
                data,
                4096,
                2,
                0,
                0,
                0,
                mhandle,
                ptr::null_mut(),
            )
        } else {
            call!(
                self,
                "regMrSymDmaBuf",
                fn(Opaque, Opaque, usize, c_int, u64, c_int, u64, *mut Opaque),
                comm,
                data,
                4096,
                2,
                0,
                0,
                0,
                mhandle,
            )
        }
    }

    pub(super) fn dereg_mr_sym(&self, comm: Opaque, mhandle: Opaque) -> Code {
        call!(self, "deregMrSym", fn(Opaque, Opaque), comm, mhandle)
    }

    pub(super) fn destroy_context(&self, ctx: Opaque) -> Code {
        call!(self, "destroyContext", fn(Opaque), ctx)
    }

    pub(super) fn close_coll(&self, comm: Opaque) -> Code {
        call!(self, "closeColl", fn(Opaque), comm)
    }

    pub(super) fn close_listen(&self, comm: Opaque) -> Code {
        call!(self, "closeListen", fn(Opaque), comm)
    }

    pub(super) fn iput(&self, put: &Transfer, request: *mut Opaque) -> Code {
        self.transfer("iput", put, request)
    }

    pub(super) fn iput_signal(&self, put: &Transfer, s: &Signal, request: *mut Opaque) -> Code {
        if self.has_device_parts {
            call!(
                self,
                "iputSignal",
                fn(
                    Opaque,
                    c_int,
                    u64,
                    Opaque,
                    usize,
                    u64,
                    Opaque,
                    u32,
                    u64,
                    Opaque,
                    u64,
                    u32,
                    *mut Opaque,
                ),
                put.ctx,
                put.context,
                put.from.1,
                put.from.0,
                put.size,
                put.to.1,
                put.to.0,
                put.rank,
                s.at.1,
                s.at.0,
                s.value,
                s.operation,
                request,
            )
        } else {
            call!(
                self,
                "iputSignal",
                fn(
                    Opaque,
                    c_int,
                    u64,
                    Opaque,
                    usize,
                    u64,
                    Opaque,
                    u32,
                    u64,
                    Opaque,
                    u64,
                    u32,
                    bool,
                    *mut Opaque,
                ),
                put.ctx,
                put.context,
                put.from.1,
                put.from.0,
                put.size,
                put.to.1,
                put.to.0,
                put.rank,
                s.at.1,
                s.at.0,
                s.value,
                s.operation,
                s.is_strong,
                request,
            )
        }
    }

    pub(super) fn iget(&self, get: &Transfer, request: *mut Opaque) -> Code {
        self.transfer("iget", get, request)
    }

    /// Calls `iput` or `iget`, which have the same type.
    fn transfer(&self, member: &'static str, bytes: &Transfer, request: *mut Opaque) -> Code {
        call!(
            self,
            member,
            fn(Opaque, c_int, u64, Opaque, usize, u64, Opaque, u32, *mut Opaque),
            bytes.ctx,
            bytes.context,
            bytes.from.1,
            bytes.from.0,
            bytes.size,
            bytes.to.1,
            bytes.to.0,
            bytes.rank,
            request,
        )
    }

    pub(super) fn iflush(
        &self,
        ctx: Opaque,
        context: c_int,
        mhandle: Opaque,
        rank: u32,
        request: *mut Opaque,
    ) -> Code {
        call!(
            self,
            "iflush",
            fn(Opaque, c_int, Opaque, u32, *mut Opaque),
            ctx,
            context,
            mhandle,
            rank,
            request,
        )
    }

    pub(super) fn test(&self, comm: Opaque, request: Opaque, done: *mut c_int) -> Code {
        call!(self, "test", fn(Opaque, Opaque, *mut c_int), comm, request, done)
    }

    pub(super) fn progress(&self, ctx: Opaque) -> Code {
        call!(self, "progress", fn(Opaque), ctx)
    }

    /// Returns `None` in v13, whose member has to be NULL: NCCL 2.30.4 passes another structure.
    pub(super) fn query_last_error(&self, ctx: Opaque) -> Option<Result<bool, Code>> {
        if self.has_device_parts {
            return None;
        }
        let mut has_error = false;
        let code = call!(self, "queryLastError", fn(Opaque, *mut bool), ctx, &raw mut has_error);
        Some(if code == SUCCESS { Ok(has_error) } else { Err(code) })
    }
}
