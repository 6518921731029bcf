//! Gives the library the name of the driver's, by which the dynamic linker finds it once a test has
//! opened it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
