//! The substitute of the CUDA driver, as the tests control it.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use braid::MemoryRegion;
use cuda_substitute::{Behaviour, Record};

/// The substitute, held by one test at a time.
pub(crate) struct Gpu(#[allow(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static LIBRARY: OnceLock<usize> = OnceLock::new();

impl Gpu {
    /// Opens the substitute, which the engine then finds by its name, and resets its behaviour.
    pub(crate) fn new() -> Self {
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        LIBRARY.get_or_init(|| {
            let test = std::env::current_exe().unwrap();
            let file = test.with_file_name("libcuda_substitute.so");
            let name = CString::new(file.as_os_str().as_bytes()).unwrap();
            // SAFETY: the name ends in a nul, and the library has no initialisers.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            assert!(!handle.is_null(), "cannot open {}", file.display());
            handle as usize
        });
        let gpu = Gpu(guard);
        gpu.behave(Behaviour::default());
        gpu.look(None);
        gpu.lie(false);
        gpu
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        let handle = *LIBRARY.get().expect("it is open") as *mut c_void;
        // SAFETY: the handle is of an open library, and the name ends in a nul.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!found.is_null(), "the substitute has no {name:?}");
        found
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        type Set = unsafe extern "C" fn(*const Behaviour);
        // SAFETY: the function has this type.
        let set: Set = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_set")) };
        // SAFETY: it is readable.
        unsafe { set(&raw const behaviour) };
    }

    /// Makes copies take times between these, in microseconds.
    pub(crate) fn slow_down(&self, shortest_us: u64, longest_us: u64) {
        self.behave(Behaviour { shortest_us, longest_us, ..Behaviour::default() });
    }

    /// Makes copies end by the number of looks at their events, each of which takes so long.
    /// `None`: by the system's clock.
    pub(crate) fn look(&self, look_us: Option<u64>) {
        type Look = extern "C" fn(u64);
        // SAFETY: the function has this type.
        let look: Look = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_look")) };
        look(look_us.unwrap_or(0));
    }

    /// Makes events happen before their copies have ended.
    pub(crate) fn lie(&self, lies: bool) {
        type Lie = extern "C" fn(bool);
        // SAFETY: the function has this type.
        let lie: Lie = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_lie")) };
        lie(lies);
    }

    pub(crate) fn record(&self) -> Record {
        type Report = unsafe extern "C" fn(*mut Record);
        // SAFETY: the function has this type.
        let report: Report = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_record")) };
        let mut record = Record::default();
        // SAFETY: it is writable.
        unsafe { report(&raw mut record) };
        record
    }

    /// Makes a context and memory in it. Returns the number of the context and the address.
    pub(crate) fn context(&self, len: usize) -> (u64, u64) {
        type Make = unsafe extern "C" fn(usize, *mut u64) -> u32;
        // SAFETY: the function has this type.
        let make: Make = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_context")) };
        let mut made = [0; 2];
        // SAFETY: there is room for two numbers.
        assert_eq!(unsafe { make(len, made.as_mut_ptr()) }, 0);
        (made[0], made[1])
    }

    pub(crate) fn destroy(&self, context: u64) {
        type Destroy = extern "C" fn(u64);
        let symbol = self.symbol(c"cuda_substitute_destroy");
        // SAFETY: the function has this type.
        let destroy: Destroy = unsafe { std::mem::transmute(symbol) };
        destroy(context);
    }

    /// The bytes that are in device memory now, beside all streams.
    pub(crate) fn peek(&self, region: &MemoryRegion, at: usize, len: usize) -> Vec<u8> {
        self.peek_at(region.addr() + at as u64, len).expect("device memory")
    }

    pub(crate) fn peek_at(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        type Peek = unsafe extern "C" fn(u64, *mut u8, usize) -> u32;
        // SAFETY: the function has this type.
        let peek: Peek = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_peek")) };
        let mut bytes = vec![0; len];
        // SAFETY: there is room for the bytes.
        (unsafe { peek(addr, bytes.as_mut_ptr(), len) } == 0).then_some(bytes)
    }

    /// Writes bytes to device memory, beside all streams.
    pub(crate) fn poke(&self, region: &MemoryRegion, at: usize, bytes: &[u8]) {
        type Poke = unsafe extern "C" fn(u64, *const u8, usize) -> u32;
        // SAFETY: the function has this type.
        let poke: Poke = unsafe { std::mem::transmute(self.symbol(c"cuda_substitute_poke")) };
        let addr = region.addr() + at as u64;
        // SAFETY: these are the bytes.
        assert_eq!(unsafe { poke(addr, bytes.as_ptr(), bytes.len()) }, 0);
    }
}
