//! Device memory over a network that loses, repeats and reorders packets.

use std::time::Duration;

use braid::wr;
use braid::{EngineConfig, Faults};

use crate::gpu::Gpu;
use crate::pair::{self, Pair};
use crate::{LEN, device, pattern};

#[test]
fn lost_and_repeated_packets_change_no_byte() {
    let gpu = Gpu::new();
    for (name, config) in pair::configs_for_faults() {
        println!("-- {name}");
        let faults = Faults { drop: 0.02, duplicate: 0.02, reorder: 0.05, ..Faults::default() };
        let p = Pair::new(&EngineConfig { faults, ..config });
        gpu.slow_down(0, 500);
        let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
        for round in 0..6 {
            let data = pattern(round, 400_000);
            gpu.poke(&near, 0, &data);
            let all = [near.slice(..data.len()).unwrap()];
            for part in 0..8_usize {
                let range = part * 50_000..(part + 1) * 50_000;
                let piece = near.slice(range.clone()).unwrap();
                let write = wr::write(part as u64, [piece], far.remote().at(range.start as u64));
                p.a.qp.post_send(write).unwrap();
            }
            p.successes(&p.a, 8);
            assert!(gpu.peek(&far, 0, data.len()) == data, "WRITE");
            // The bytes are the application's again: nothing may touch them any more.
            let mine = pattern(round + 1000, data.len());
            gpu.poke(&far, 0, &mine);
            p.quiet(Duration::from_millis(5));
            assert!(gpu.peek(&far, 0, mine.len()) == mine, "bytes change after the completion");
            p.a.qp.post_send(wr::read(9, all, far.remote().at(0))).unwrap();
            p.successes(&p.a, 1);
            assert!(gpu.peek(&near, 0, mine.len()) == mine, "READ");
        }
    }
}
