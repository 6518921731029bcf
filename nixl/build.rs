//! Compiles the C++ part, and links the plugin so that it stays mapped when NIXL unloads it.

fn main() {
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .define("BRAID_VERSION", Some(concat!("\"", env!("CARGO_PKG_VERSION"), "\"")))
        .file("abi/plugin.cpp")
        .compile("braid_nixl_abi");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    for file in ["abi/nixl.hpp", "abi/plugin.cpp", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
}
