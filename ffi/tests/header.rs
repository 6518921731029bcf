//! `include/braid.h` matches the sources.

use std::fs;
use std::path::Path;

const REWRITE: &str = "BRAID_WRITE_HEADER=1 cargo test -p braid-ffi --test header";

#[test]
fn the_header_that_is_checked_in_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("include/braid.h");
    let generated = generate(folder);
    if std::env::var_os("BRAID_WRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let line = checked_in.lines().zip(generated.lines()).take_while(|(old, new)| old == new);
    let line = line.count() + 1;
    assert!(
        checked_in == generated,
        "ffi/include/braid.h is not what ffi/src makes it, from line {line} on; write it anew:\n  {REWRITE}\n"
    );
}

#[test]
fn every_function_says_who_may_call_it() {
    let header = include_str!("../include/braid.h");
    let (_, functions) = header.split_once("extern \"C\"").unwrap();
    let declares =
        |line: &str| !line.starts_with([' ', '/']) && line.contains("braid_") && line.contains('(');
    let mut told = false;
    for line in functions.lines() {
        told |= line.starts_with("// Threads: ");
        if declares(line) {
            assert!(told, "no word about threads above `{line}`");
            told = false;
        }
    }
}

fn generate(folder: &Path) -> String {
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(folder, config).unwrap();
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).unwrap()
}
