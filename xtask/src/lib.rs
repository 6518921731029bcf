//! Every chore of the project: `cargo xtask <command>`.
//!
//! One module per command. Each exposes `run`, prints to the terminal and returns a [`Failure`]
//! that says what went wrong and how to put it right.

pub mod advisories;
pub mod bench;
pub mod book;
pub mod c_examples;
mod capture;
pub mod count;
pub mod deb;
pub mod dependencies;
pub mod drop_in;
pub mod e2e;
pub mod fabric;
pub mod failure;
mod files;
pub mod first_contact;
pub mod flood;
pub mod fmt;
pub mod fuzz;
mod gungraun_runner;
pub mod install;
mod lanes;
pub mod layers;
mod lean;
pub mod lint;
pub mod loom;
pub mod msrv;
pub mod nightly;
pub mod package;
pub mod process;
pub mod programs;
pub mod recipe;
pub mod rustc;
pub mod sanitize;
pub mod soak;
pub mod softroce;
pub mod step;
pub mod studies;
pub mod terminal;
pub mod test;
pub mod tidy;
pub mod tools;
pub mod tree;
pub mod verbs_programs;
pub mod wheel;
pub mod wireshark;

pub use failure::Failure;
