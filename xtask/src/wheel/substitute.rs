//! The substitute of the CUDA driver, with which tests of Python programs use memory of GPUs.

use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, process, programs, tree};

/// Builds the library.
pub(super) fn build() -> Result<(), Failure> {
    let mut cargo = tree::cargo();
    process::run(cargo.args(["build", "--quiet", "--release", "-p", "braid-cuda-substitute"]))
}

/// The folder of the module that controls the library.
pub(super) fn python() -> PathBuf {
    tree::root().join("engine/cuda-substitute/python")
}

/// Lets a program find the library and the module.
pub(super) fn offer(program: &mut Command) -> Result<(), Failure> {
    let library = programs::folder()?.join("libcuda_substitute.so");
    program.env("BRAID_CUDA_SUBSTITUTE", library).env("PYTHONPATH", python());
    Ok(())
}
