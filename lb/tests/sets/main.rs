//! Tests of path sets and their policies, through the public interface.

mod adaptive;
mod health;
mod policies;
mod suspicion;
