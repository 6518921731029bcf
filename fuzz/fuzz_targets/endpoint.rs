//! A connected peer that lies, as the fuzzer's bytes decide: `transport/tests/hostile` has the
//! rules.
#![no_main]

#[path = "../../transport/tests/hostile/attack/mod.rs"]
mod attack;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

use self::attack::Attack;
use self::attack::choices::Choices;

/// Decisions out of bytes; 0 for each when they are used up.
struct Decoded<'a>(Unstructured<'a>);

impl Choices for Decoded<'_> {
    fn below(&mut self, end: u64) -> u64 {
        self.0.int_in_range(0..=end - 1).unwrap_or(0)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Decoded(Unstructured::new(bytes));
    let mut attack = Attack::new(&mut choices);
    while !choices.0.is_empty() {
        attack.step(&mut choices);
    }
    attack.end();
});
