//! Simulated fabrics, through the public interface.

mod direct;
mod goal;
mod lossless;
mod own_controller;
mod own_path_policy;
mod own_switch_policy;
mod physics;
mod rails;
mod receiver_credit;
mod silent_cut;
mod spines;
mod unequal_paths;
