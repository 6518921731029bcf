//! The plugin through one version's table, with a common interface for all versions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libloading::Library;

use crate::handle::Handle;
use crate::logger;
use crate::table::{Properties, RawProperties, member};

/// `ncclResult_t`.
pub(crate) type Code = c_int;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const SYSTEM_ERROR: Code = 2;
pub(crate) const INVALID_ARGUMENT: Code = 4;
pub(crate) const INVALID_USAGE: Code = 5;
pub(crate) const REMOTE_ERROR: Code = 6;

/// Memory of the host, and of a GPU.
pub(crate) const HOST: c_int = 1;
pub(crate) const CUDA: c_int = 2;

/// A pointer of the plugin's.
pub(crate) type Opaque = *mut c_void;
pub(crate) const NULL: Opaque = ptr::null_mut();

/// The profiler's callback.
pub(crate) type Profiler = unsafe extern "C" fn(*mut Opaque, c_int, Opaque, i64, Opaque) -> c_int;

/// An open plugin.
pub(crate) struct Net {
    /// Holds the library open.
    _library: Library,
    table: *const *const c_void,
    pub(crate) version: u32,
    /// The traffic class of communicators. Default: -1, not configured.
    pub(crate) traffic_class: AtomicI32,
}

// SAFETY: the table is only read, and its functions may be called from any thread.
unsafe impl Sync for Net {}

/// The function of a member, as the type that its version says.
macro_rules! call {
    ($net:expr, $member:literal, fn($($ty:ty),* $(,)?), $($arg:expr),*) => {{
        let address = $net.pointer($member).expect("every version has this member");
        assert!(!address.is_null(), "{} is NULL", $member);
        // SAFETY: the header of this version gives the member this type, and the arguments are what
        // the header asks for, or what the check wants to see refused.
        let function: unsafe extern "C" fn($($ty),*) -> Code = unsafe { std::mem::transmute(address) };
        // SAFETY: as above.
        unsafe { function($($arg),*) }
    }};
}

impl Net {
    /// Opens the library as NCCL does.
    ///
    /// # Errors
    /// The plugin does not load, or lacks the table.
    pub(crate) fn open(file: &Path, version: u32) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers; it is the plugin under test.
        let library = unsafe { Library::new(file) }.map_err(|error| error.to_string())?;
        let symbol = format!("ncclNetPlugin_v{version}");
        // SAFETY: the symbol is a table of pointers.
        let table = unsafe { library.get::<*const c_void>(symbol.as_bytes()) };
        let table = table.map_err(|error| format!("{symbol}: {error}"))?;
        // The symbol is the table itself, not a pointer to it.
        // SAFETY: the library stays open for as long as the table is used.
        let table = unsafe { table.try_as_raw_ptr() }.ok_or("the symbol has no address")?;
        Ok(Net {
            table: table.cast_const().cast(),
            version,
            traffic_class: AtomicI32::new(-1),
            _library: library,
        })
    }

    /// A member of the table; `None`: this version does not have it.
    pub(crate) fn pointer(&self, name: &str) -> Option<*const c_void> {
        let index = member(self.version, name)?;
        // SAFETY: the table has a pointer for each member of its version.
        Some(unsafe { *self.table.add(index) })
    }

    pub(crate) fn name(&self) -> String {
        let name = self.pointer("name").expect("every version has a name").cast::<c_char>();
        // SAFETY: the first member is a C string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    pub(crate) fn has_context(&self) -> bool {
        self.version >= 11
    }

    /// The context, NULL where the version has none.
    pub(crate) fn init(&self, profiler: Option<Profiler>) -> Result<Opaque, Code> {
        let mut ctx = ptr::null_mut();
        let traffic_class: c_int = self.traffic_class.load(Ordering::Relaxed);
        let logger = logger::log as *const c_void;
        let profiler = profiler.map_or(ptr::null(), |profiler| profiler as *const c_void);
        let code = match self.version {
            ..=9 => call!(self, "init", fn(*const c_void), logger),
            10 => call!(self, "init", fn(*const c_void, *const c_void), logger, profiler),
            _ => call!(
                self,
                "init",
                fn(*mut Opaque, u64, *const c_int, *const c_void, *const c_void),
                &raw mut ctx,
                0x1234,
                &raw const traffic_class,
                logger,
                profiler
            ),
        };
        if code == SUCCESS { Ok(ctx) } else { Err(code) }
    }

    pub(crate) fn finalize(&self, ctx: Opaque) -> Code {
        if self.has_context() { call!(self, "finalize", fn(Opaque), ctx) } else { SUCCESS }
    }

    pub(crate) fn devices(&self) -> Result<c_int, Code> {
        let mut count = -1;
        let code = call!(self, "devices", fn(*mut c_int), &raw mut count);
        if code == SUCCESS { Ok(count) } else { Err(code) }
    }

    pub(crate) fn properties(&self, device: c_int) -> Result<Properties, String> {
        let mut raw = RawProperties::new();
        let place = raw.as_mut_ptr();
        match call!(self, "getProperties", fn(c_int, Opaque), device, place) {
            // SAFETY: the plugin says that it has filled them in.
            SUCCESS => unsafe { raw.read(self.version) },
            code => Err(format!("getProperties({device}) returned {code}")),
        }
    }

    /// Makes a device of others; `count` is how many the structure says that there are.
    pub(crate) fn make_virtual(&self, count: c_int, members: &[c_int]) -> Result<c_int, Code> {
        let mut props = [0; 9];
        props[0] = count;
        props[1..=members.len()].copy_from_slice(members);
        let (mut device, props) = (-1, props.as_mut_ptr());
        let code = call!(self, "makeVDevice", fn(*mut c_int, *mut c_int), &raw mut device, props);
        if code == SUCCESS { Ok(device) } else { Err(code) }
    }

    /// `makeVDevice` without one of its places.
    pub(crate) fn make_virtual_nowhere(&self, has_props: bool) -> Code {
        let (mut device, mut props) = (-1, [1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let nowhere = ptr::null_mut();
        let (device, props) = match has_props {
            true => (nowhere, props.as_mut_ptr()),
            false => (&raw mut device, nowhere),
        };
        call!(self, "makeVDevice", fn(*mut c_int, *mut c_int), device, props)
    }

    pub(crate) fn listen(
        &self,
        ctx: Opaque,
        device: c_int,
        handle: *mut Handle,
        comm: *mut Opaque,
    ) -> Code {
        let handle: Opaque = handle.cast();
        if self.has_context() {
            call!(self, "listen", fn(Opaque, c_int, Opaque, *mut Opaque), ctx, device, handle, comm)
        } else {
            call!(self, "listen", fn(c_int, Opaque, *mut Opaque), device, handle, comm)
        }
    }

    pub(crate) fn connect(
        &self,
        ctx: Opaque,
        device: c_int,
        handle: *mut Handle,
        comm: *mut Opaque,
    ) -> Code {
        let handle: Opaque = handle.cast();
        let mut on_device: Opaque = ptr::null_mut();
        let on_device = &raw mut on_device;
        let traffic_class: c_int = self.traffic_class.load(Ordering::Relaxed);
        match self.version {
            6 => call!(self, "connect", fn(c_int, Opaque, *mut Opaque), device, handle, comm),
            7..=9 => call!(
                self,
                "connect",
                fn(c_int, Opaque, *mut Opaque, *mut Opaque),
                device,
                handle,
                comm,
                on_device
            ),
            10 => call!(
                self,
                "connect",
                fn(c_int, *const c_int, Opaque, *mut Opaque, *mut Opaque),
                device,
                &raw const traffic_class,
                handle,
                comm,
                on_device
            ),
            _ => call!(
                self,
                "connect",
                fn(Opaque, c_int, Opaque, *mut Opaque, *mut Opaque),
                ctx,
                device,
                handle,
                comm,
                on_device
            ),
        }
    }

    pub(crate) fn accept(&self, listener: Opaque, comm: *mut Opaque) -> Code {
        let mut on_device: Opaque = ptr::null_mut();
        if self.version == 6 {
            call!(self, "accept", fn(Opaque, *mut Opaque), listener, comm)
        } else {
            call!(
                self,
                "accept",
                fn(Opaque, *mut Opaque, *mut Opaque),
                listener,
                comm,
                &raw mut on_device
            )
        }
    }

    pub(crate) fn reg_mr(
        &self,
        comm: Opaque,
        data: *mut u8,
        size: usize,
        kind: c_int,
        mhandle: *mut Opaque,
    ) -> Code {
        let data: Opaque = data.cast();
        if self.version < 8 {
            let size = size as c_int;
            call!(
                self,
                "regMr",
                fn(Opaque, Opaque, c_int, c_int, *mut Opaque),
                comm,
                data,
                size,
                kind,
                mhandle
            )
        } else {
            call!(
                self,
                "regMr",
                fn(Opaque, Opaque, usize, c_int, *mut Opaque),
                comm,
                data,
                size,
                kind,
                mhandle
            )
        }
    }

    pub(crate) fn dereg_mr(&self, comm: Opaque, mhandle: Opaque) -> Code {
        call!(self, "deregMr", fn(Opaque, Opaque), comm, mhandle)
    }

    pub(crate) fn isend(&self, send: &Send, request: *mut Opaque) -> Code {
        let Send { comm, data, size, tag, mhandle, phandle } = *send;
        let data: Opaque = data.cast();
        let int = size as c_int;
        match self.version {
            ..=8 => call!(
                self,
                "isend",
                fn(Opaque, Opaque, c_int, c_int, Opaque, *mut Opaque),
                comm,
                data,
                int,
                tag,
                mhandle,
                request
            ),
            9 => call!(
                self,
                "isend",
                fn(Opaque, Opaque, usize, c_int, Opaque, *mut Opaque),
                comm,
                data,
                size,
                tag,
                mhandle,
                request
            ),
            _ => call!(
                self,
                "isend",
                fn(Opaque, Opaque, usize, c_int, Opaque, Opaque, *mut Opaque),
                comm,
                data,
                size,
                tag,
                mhandle,
                phandle,
                request
            ),
        }
    }

    pub(crate) fn irecv(&self, recv: &mut Recv, request: *mut Opaque) -> Code {
        let mut ints: Vec<c_int> = recv.sizes.iter().map(|size| *size as c_int).collect();
        let (comm, n) = (recv.comm, recv.n);
        let (data, tags) = (recv.data.as_mut_ptr(), recv.tags.as_mut_ptr());
        let (sizes, mhandles) = (recv.sizes.as_mut_ptr(), recv.mhandles.as_mut_ptr());
        let phandles =
            if recv.phandles.is_empty() { ptr::null_mut() } else { recv.phandles.as_mut_ptr() };
        match self.version {
            ..=8 => call!(
                self,
                "irecv",
                fn(Opaque, c_int, *mut Opaque, *mut c_int, *mut c_int, *mut Opaque, *mut Opaque),
                comm,
                n,
                data,
                ints.as_mut_ptr(),
                tags,
                mhandles,
                request
            ),
            9 => call!(
                self,
                "irecv",
                fn(Opaque, c_int, *mut Opaque, *mut usize, *mut c_int, *mut Opaque, *mut Opaque),
                comm,
                n,
                data,
                sizes,
                tags,
                mhandles,
                request
            ),
            _ => call!(
                self,
                "irecv",
                fn(
                    Opaque,
                    c_int,
                    *mut Opaque,
                    *mut usize,
                    *mut c_int,
                    *mut Opaque,
                    *mut Opaque,
                    *mut Opaque,
                ),
                comm,
                n,
                data,
                sizes,
                tags,
                mhandles,
                phandles,
                request
            ),
        }
    }

    pub(crate) fn iflush(
        &self,
        comm: Opaque,
        data: *mut u8,
        mhandle: Opaque,
        request: *mut Opaque,
    ) -> Code {
        let (mut data, mut size, mut mhandle): (Opaque, c_int, Opaque) = (data.cast(), 8, mhandle);
        call!(
            self,
            "iflush",
            fn(Opaque, c_int, *mut Opaque, *mut c_int, *mut Opaque, *mut Opaque),
            comm,
            1,
            &raw mut data,
            &raw mut size,
            &raw mut mhandle,
            request
        )
    }

    pub(crate) fn test(&self, request: Opaque, done: *mut c_int, sizes: *mut c_int) -> Code {
        call!(self, "test", fn(Opaque, *mut c_int, *mut c_int), request, done, sizes)
    }

    pub(crate) fn close_send(&self, comm: Opaque) -> Code {
        call!(self, "closeSend", fn(Opaque), comm)
    }

    pub(crate) fn close_recv(&self, comm: Opaque) -> Code {
        call!(self, "closeRecv", fn(Opaque), comm)
    }

    pub(crate) fn close_listen(&self, comm: Opaque) -> Code {
        call!(self, "closeListen", fn(Opaque), comm)
    }
}

/// The arguments of `isend`.
#[derive(Clone, Copy)]
pub(crate) struct Send {
    pub(crate) comm: Opaque,
    pub(crate) data: *mut u8,
    pub(crate) size: usize,
    pub(crate) tag: c_int,
    pub(crate) mhandle: Opaque,
    pub(crate) phandle: Opaque,
}

/// The arguments of `irecv`.
pub(crate) struct Recv {
    pub(crate) comm: Opaque,
    pub(crate) n: c_int,
    pub(crate) data: Vec<Opaque>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) tags: Vec<c_int>,
    pub(crate) mhandles: Vec<Opaque>,
    /// Empty: NULL.
    pub(crate) phandles: Vec<Opaque>,
}
