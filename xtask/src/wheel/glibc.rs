//! The oldest C library that the wheel runs with.

use std::path::Path;
use std::process::Command;

use crate::{Failure, process};

/// Checks that a plugin needs no newer C library than the wheel's name says, which maturin has
/// derived from the extension module.
pub(super) fn check(wheel: &Path, what: &str, plugin: &Path) -> Result<(), Failure> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    let Some(named) = version_after(&name, "manylinux_2_") else {
        let what = format!("{name} is not for all systems with a C library from some version on");
        return Err(Failure::new(what).remedy("see why maturin links it to other libraries"));
    };
    let symbols = process::output(Command::new("objdump").arg("-T").arg(plugin))?;
    let parts = symbols.split("GLIBC_").skip(1);
    let needed = parts.filter_map(|part| version_after(part, "2.")).max().unwrap_or_default();
    if needed > named {
        let what = format!(
            "the {what} plugin needs glibc 2.{needed}, and {name} promises to run with 2.{named}"
        );
        return Err(Failure::new(what).remedy("link both alike"));
    }
    println!("{what} plugin: glibc 2.{named} or later");
    Ok(())
}

/// The number behind the first `mark`.
fn version_after(text: &str, mark: &str) -> Option<u32> {
    let (_, rest) = text.split_once(mark)?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_behind_their_marks() {
        let wheel = "braid_rdma-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl";
        assert_eq!(version_after(wheel, "manylinux_2_"), Some(34));
        assert_eq!(version_after("2.2.5)  free", "2."), Some(2));
        assert_eq!(version_after("x-linux_x86_64.whl", "manylinux_2_"), None);
    }
}
