//! A substitute of CUDA's driver, which the plugin finds by its name once it is open.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use cuda_substitute::{Behaviour, Record};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::pair::{Verdict, ensure};

/// The substitute.
pub(super) struct Gpu(Library);

/// Returns the file of the substitute that was built with this program.
pub(super) fn file() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let (folder, name) = (program.parent()?, "libcuda_substitute.so");
    [folder.join("deps").join(name), folder.join(name)].into_iter().find(|file| file.exists())
}

impl Gpu {
    pub(super) fn open() -> Verdict<Self> {
        let file = file().ok_or("the substitute of CUDA's driver is not beside this program")?;
        // SAFETY: the library has no initialisers.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
        Ok(Gpu(library.map_err(|error| error.to_string())?))
    }

    /// The function of this name.
    ///
    /// # Safety
    /// The function has the type `T`.
    unsafe fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { self.0.get::<T>(name.as_bytes()) };
        *found.expect("the substitute has the function")
    }

    /// Makes copies take times between these, in microseconds.
    pub(super) fn slow_down(&self, shortest_us: u64, longest_us: u64) {
        type Set = unsafe extern "C" fn(*const Behaviour);
        // SAFETY: the function has this type.
        let set: Set = unsafe { self.function("cuda_substitute_set") };
        let behaviour = Behaviour { shortest_us, longest_us, ..Behaviour::default() };
        // SAFETY: it is readable.
        unsafe { set(&raw const behaviour) };
    }

    pub(super) fn record(&self) -> Record {
        type Report = unsafe extern "C" fn(*mut Record);
        // SAFETY: the function has this type.
        let report: Report = unsafe { self.function("cuda_substitute_record") };
        let mut record = Record::default();
        // SAFETY: it is writable.
        unsafe { report(&raw mut record) };
        record
    }

    /// Allocates device memory in the primary context. It stays as long as the process.
    pub(super) fn allocate(&self, len: usize) -> Verdict<u64> {
        type Context = *mut c_void;
        type Retain = unsafe extern "C" fn(*mut Context, c_int) -> u32;
        type Push = unsafe extern "C" fn(Context) -> u32;
        type Pop = unsafe extern "C" fn(*mut Context) -> u32;
        type Allocate = unsafe extern "C" fn(*mut u64, usize) -> u32;
        let (mut context, mut addr) = (std::ptr::null_mut(), 0);
        // SAFETY: these are the types of CUDA, and the places are valid.
        let codes = unsafe {
            let retain: Retain = self.function("cuDevicePrimaryCtxRetain");
            let push: Push = self.function("cuCtxPushCurrent_v2");
            let allocate: Allocate = self.function("cuMemAlloc_v2");
            let pop: Pop = self.function("cuCtxPopCurrent_v2");
            let retained = retain(&raw mut context, 0);
            [retained, push(context), allocate(&raw mut addr, len), pop(&raw mut context)]
        };
        ensure!(codes == [0; 4], "no device memory: {codes:?}");
        Ok(addr)
    }

    /// Copies bytes of device memory, beside all streams, as a kernel would see them.
    pub(super) fn peek(&self, addr: u64, out: &mut [u8]) {
        type Peek = unsafe extern "C" fn(u64, *mut u8, usize) -> u32;
        // SAFETY: the function has this type, and there is room for the bytes.
        let code = unsafe {
            let peek: Peek = self.function("cuda_substitute_peek");
            peek(addr, out.as_mut_ptr(), out.len())
        };
        assert_eq!(code, 0, "{addr:#x} is device memory");
    }

    /// Writes bytes to device memory, beside all streams.
    pub(super) fn poke(&self, addr: u64, bytes: &[u8]) {
        type Poke = unsafe extern "C" fn(u64, *const u8, usize) -> u32;
        // SAFETY: the function has this type, and these are the bytes.
        let code = unsafe {
            let poke: Poke = self.function("cuda_substitute_poke");
            poke(addr, bytes.as_ptr(), bytes.len())
        };
        assert_eq!(code, 0, "{addr:#x} is device memory");
    }
}
