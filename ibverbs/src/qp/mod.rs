//! Queue pairs.

pub(crate) mod attributes;
mod connection;
pub(crate) mod create;
mod failure;
mod failures;
pub(crate) mod handle;
mod limits;
pub(crate) mod modify;
mod places;
pub(crate) mod queue_pair;
pub(crate) mod queues;
mod roce;
mod sending;
mod service;
mod transition;

pub use self::create::{ibv_create_qp, ibv_destroy_qp};
pub use self::modify::{ibv_modify_qp, ibv_query_qp};
