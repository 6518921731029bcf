//! The kernel as QEMU starts it soonest: unpacked, which an emulated processor would take 5 s for.
//!
//! `Documentation/arch/x86/boot.rst` has the header's fields; QEMU boots the ELF file by its PVH
//! note.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use crate::Failure;

const SECTOR: usize = 512;
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const XZ: &[u8] = b"\xfd7zXZ\0";

/// The ELF file inside a `vmlinuz`. One that is not packed by xz is returned as it is: it unpacks
/// itself.
pub(super) fn unpack(vmlinuz: Vec<u8>) -> Result<Vec<u8>, Failure> {
    match payload(&vmlinuz) {
        Some(payload) if payload.starts_with(XZ) => xz(payload.to_vec()),
        Some(_) => Ok(vmlinuz),
        None => Err(Failure::new("the kernel's package holds no bzImage for x86")),
    }
}

fn payload(vmlinuz: &[u8]) -> Option<&[u8]> {
    if vmlinuz.get(MAGIC..MAGIC + 4)? != b"HdrS" {
        return None;
    }
    let word = |at: usize| {
        let bytes = vmlinuz.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    // The boot sector comes on top.
    let setup = (usize::from(vmlinuz[SETUP_SECTORS]) + 1) * SECTOR;
    let begin = setup.checked_add(word(PAYLOAD_OFFSET)?)?;
    vmlinuz.get(begin..begin.checked_add(word(PAYLOAD_LENGTH)?)?)
}

fn xz(packed: Vec<u8>) -> Result<Vec<u8>, Failure> {
    // The kernel's size follows the stream.
    let mut child = Command::new("xz")
        .args(["-dc", "--single-stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::new(format!("cannot start `xz`: {e}")).remedy("install xz-utils"))?;
    let mut stdin = child.stdin.take().expect("piped");
    // It ends before it has read all.
    let feeder = thread::spawn(move || drop(stdin.write_all(&packed)));
    let output = child.wait_with_output();
    let _ = feeder.join();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Failure::new(format!("`xz -dc` of the kernel: {}", output.status))),
        Err(e) => Err(Failure::new(format!("`xz -dc` of the kernel: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sector of boot code, one of set-up, and a payload 8 bytes into what follows.
    fn image(payload: &[u8], length: u32) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR + 8];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 8;
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn the_payload_is_where_the_header_says() {
        assert_eq!(payload(&image(b"packed", 6)), Some(&b"packed"[..]));
        let other = image(b"\x28\xb5\x2f\xfd", 4);
        assert_eq!(unpack(other.clone()).expect("unpacks itself"), other);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        assert!(unpack(b"hello".to_vec()).is_err());
        assert!(unpack(vec![0; 4096]).is_err());
        assert!(unpack(image(b"cut", 4)).is_err());
        assert!(unpack(image(XZ, XZ.len() as u32)).is_err());
    }
}
