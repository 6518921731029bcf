//! The library exports the tables and nothing else.

/// Names of the defined dynamic symbols of an ELF64 file (System V ABI, chapters 4 and 5).
fn defined_symbols(file: &[u8]) -> Vec<String> {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    assert_eq!(&file[..6], b"\x7fELF\x02\x01", "a little-endian ELF64 file");
    const DYNSYM: usize = 11;
    const SYMBOL: usize = 24;
    let (table, size, count) = (u64_at(0x28), u16_at(0x3A), u16_at(0x3C));
    let section = |index: usize| table + index * size;
    let symbols = (0..count).map(section).find(|at| u32_at(at + 4) == DYNSYM).expect("a .dynsym");
    let names = u64_at(section(u32_at(symbols + 0x28)) + 0x18);
    let (start, len) = (u64_at(symbols + 0x18), u64_at(symbols + 0x20));
    let mut found = Vec::new();
    for symbol in (start..start + len).step_by(SYMBOL).skip(1) {
        let defined = u16_at(symbol + 6) != 0;
        if defined {
            let name = &file[names + u32_at(symbol)..];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            found.push(String::from_utf8_lossy(&name[..end]).into_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn only_the_tables_are_exported() {
    // Cargo puts the library that it builds for a test next to the test.
    let test = std::env::current_exe().expect("a program knows where it lies");
    let library = std::fs::read(test.with_file_name("libnccl_net_braid.so"));
    let mut tables: Vec<String> = (6..=12).map(|n| format!("ncclNetPlugin_v{n}")).collect();
    tables.extend(["ncclGinPlugin_v13", "ncclRmaPlugin_v13", "ncclRmaPlugin_v14"].map(Into::into));
    tables.sort();
    assert_eq!(defined_symbols(&library.expect("cargo builds the plugin with its tests")), tables);
}
