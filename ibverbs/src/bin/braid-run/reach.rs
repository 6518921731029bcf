//! Programs that preloaded libraries do not reach.
//!
//! The dynamic linker ignores its variables in a program that runs with more rights than its caller
//! (`AT_SECURE` in getauxval(3)). A static program has no dynamic linker.

use std::env;
use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The number of nested script interpreters that Linux follows.
const MAX_SCRIPTS: usize = 4;
/// Bytes that contain the interpreter line of a script, or an ELF header.
const HEAD: usize = 256;
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// The reason why the program runs without Braid, and the remedy. `None`: no reason is known.
pub(crate) fn obstacle(program: &OsStr) -> Option<String> {
    let mut path = find(program)?;
    for _ in 0..=MAX_SCRIPTS {
        let bytes = File::open(&path).ok().and_then(head)?;
        match interpreter(&bytes) {
            Some(interpreter) => path = interpreter,
            None => {
                let why = rights(&path).or_else(|| linking(&path, &bytes))?;
                return Some(format!("{} {why}", path.display()));
            }
        }
    }
    None
}

/// The file that execvp(3) would start.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    env::split_paths(&path).map(|folder| folder.join(program)).find(is_program)
}

fn head(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The interpreter of a script.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

/// The reason if the program runs with more rights than its caller.
fn rights(path: &Path) -> Option<String> {
    const IGNORED: &str = "so the dynamic linker ignores LD_LIBRARY_PATH and LD_PRELOAD";
    let found = path.metadata().ok()?;
    if are_rights_ignored(path) {
        return None;
    }
    if let Some((what, whose)) = set_id(&found) {
        return Some(format!(
            "is {what}, {IGNORED}: neither it nor what it starts runs on Braid; start it as {whose}"
        ));
    }
    (user() != 0 && has_capabilities(path)).then(|| {
        format!(
            "has file capabilities, {IGNORED}: it does not run on Braid; start a copy of it, which \
             has none"
        )
    })
}

/// The id that the program changes, and its new value.
fn set_id(found: &Metadata) -> Option<(&'static str, String)> {
    /// Without the group's right to execute, the bit means something else.
    const SETGID: u32 = libc::S_ISGID | libc::S_IXGRP;
    if found.mode() & libc::S_ISUID != 0 && found.uid() != user() {
        return Some(("setuid", format!("user {}", found.uid())));
    }
    // SAFETY: no pointers are passed.
    let group = unsafe { libc::getgid() };
    let changes = found.mode() & SETGID == SETGID && found.gid() != group;
    changes.then(|| ("setgid", format!("group {}", found.gid())))
}

fn user() -> u32 {
    // SAFETY: no pointers are passed.
    unsafe { libc::getuid() }
}

/// Whether Linux ignores the rights: on a mount without set-id bits, or for a process that must
/// not gain any.
fn are_rights_ignored(path: &Path) -> bool {
    // SAFETY: no pointers are passed.
    let gains_none = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
    let mount = nix::sys::statvfs::statvfs(path);
    gains_none
        || mount.is_ok_and(|mount| mount.flags().contains(nix::sys::statvfs::FsFlags::ST_NOSUID))
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability".as_ptr();
    // SAFETY: both pointers lead to strings, and nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name, std::ptr::null_mut(), 0) > 0 }
}

/// The reason if the program does not load these libraries.
fn linking(path: &Path, head: &[u8]) -> Option<String> {
    /// `e_machine` of an ELF header.
    const MACHINE: std::ops::Range<usize> = 18..20;
    let own = File::open("/proc/self/exe").ok().and_then(self::head)?;
    let is_program = |bytes: &[u8]| bytes.starts_with(b"\x7fELF") && bytes.len() >= 64;
    if !is_program(head) || !is_program(&own) {
        return None;
    }
    // The class, 32 or 64 bits, and the machine.
    if head[4] != own[4] || head[MACHINE] != own[MACHINE] {
        return Some(
            "is a program for another processor, or of another word size, than braid-run: it does \
             not run on Braid; build Braid for that"
                .to_owned(),
        );
    }
    match linker(path, head) {
        None => Some(
            "is linked statically: it does not run on Braid, only programs that it starts do; link \
             it dynamically"
                .to_owned(),
        ),
        Some(linker) if linker.contains("musl") => Some(format!(
            "uses the C library of {linker}, and Braid is built for glibc: it does not run on \
             Braid; use its build for glibc"
        )),
        Some(_) => None,
    }
}

/// The dynamic linker that a 64-bit program names (`PT_INTERP`).
fn linker(path: &Path, head: &[u8]) -> Option<String> {
    const PT_INTERP: u64 = 3;
    let program = File::open(path).ok()?;
    // `e_phoff`, `e_phentsize`, `e_phnum`.
    let (start, size) = (number(head, 32, 8)?, number(head, 54, 2)?);
    let mut table = vec![0; usize::try_from(size * number(head, 56, 2)?).ok()?];
    program.read_exact_at(&mut table, start).ok()?;
    let mut entries = table.chunks_exact(usize::try_from(size).ok().filter(|size| *size > 0)?);
    let entry = entries.find(|entry| number(entry, 0, 4) == Some(PT_INTERP))?;
    // `p_offset`, `p_filesz`.
    let (at, len) = (number(entry, 8, 8)?, number(entry, 32, 8)?);
    let mut name = vec![0; usize::try_from(len).ok().filter(|len| *len <= PATH_MAX)?];
    program.read_exact_at(&mut name, at).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// A little-endian number of `len` bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
