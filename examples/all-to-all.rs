//! An all-to-all between processes.
//!
//! `cargo run --example all-to-all` starts four ranks in one process. It is one rank with `RANK`,
//! `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` in the environment, or under `mpirun` or `srun`
//! with the last two. Rank 0 must run on the host with that address.
//!
//! Rank `r` sends rank `s` the byte `r`, `s + 1` times.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use braid::{Access, AllToAllV, Engine, EngineConfig, Group, GroupConfig};

const PATIENCE: Duration = Duration::from_secs(10);
const RANKS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    if ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"].iter().any(|name| env::var(name).is_ok()) {
        let config = GroupConfig::from_env()?;
        let bind = format!("[::]:{}", config.port()).parse()?;
        return exchange(&Engine::new(EngineConfig { bind, ..EngineConfig::default() })?, &config);
    }
    let bind = "127.0.0.1:0".parse()?;
    let engine = |_| Engine::new(EngineConfig { bind, ..EngineConfig::default() });
    let engines = (0..RANKS).map(engine).collect::<Result<Vec<_>, _>>()?;
    let root = engines[0].local_addr();
    let ranks = engines.into_iter().enumerate().map(|(rank, engine)| {
        let config = GroupConfig::with_root(rank, RANKS, root);
        thread::spawn(move || exchange(&engine, &config).map_err(|error| error.to_string()))
    });
    for rank in ranks.collect::<Vec<_>>() {
        rank.join().expect("a rank does not panic")?;
    }
    Ok(())
}

fn exchange(engine: &Engine, config: &GroupConfig) -> Result<(), Box<dyn Error>> {
    let group = Group::join(engine, config)?;
    let (rank, size) = (group.rank(), group.size());
    // Registered once, for any number of rounds.
    let send = Arc::new(group.pd().alloc_mr(size * size, Access::NONE)?);
    let recv =
        Arc::new(group.pd().alloc_mr(size * size, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?);
    send.write_at(0, &vec![rank as u8; size * size])?;
    let round = group.start(AllToAllV {
        send,
        sends: (0..size).map(|to| 0..to + 1).collect(),
        recv: recv.clone(),
        receives: (0..size).map(|from| from * size..from * size + rank + 1).collect(),
    })?;
    // The program could compute here, because the round progresses in the background.
    round.wait(PATIENCE)?;
    let mut first = vec![0; size * size];
    recv.read_at(0, &mut first)?;
    let first: Vec<u8> = first.into_iter().step_by(size).collect();
    println!("rank {rank} has {} bytes of each rank; the first ones: {first:?}", rank + 1);
    Ok(())
}
