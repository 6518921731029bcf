//! Links the plugin so that it stays mapped when NCCL unloads it. NCCL 2.22 and later call
//! `dlclose`, and thread-local destructors of the Rust runtime would otherwise crash.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
