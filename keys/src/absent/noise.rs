//! The handshake of a build without the feature `crypto`.

use crate::crypto::never::Never;
use crate::exchange::{Binding, Known, Secrets};
use crate::terms::TERMS_LEN;

pub(crate) use self::NoHandshake as Wiped;

pub(crate) struct NoHandshake(Never);

pub(crate) fn start(known: Known<'_>, _: Binding, _: [u8; 32], _: bool) -> NoHandshake {
    match known {
        Known::Shared(key) => drop(key.bytes()),
        Known::Static { own, peer } => drop((own.bytes(), peer.bytes())),
    }
    unreachable!("an engine without the feature `keys` refuses keys")
}

pub(crate) fn write(state: &mut NoHandshake, _: [u8; TERMS_LEN], _: &[u8]) -> Vec<u8> {
    match state.0 {}
}

pub(crate) fn read(state: &mut NoHandshake, _: &[u8]) -> Option<([u8; TERMS_LEN], Vec<u8>)> {
    match state.0 {}
}

pub(crate) fn secrets(state: &mut NoHandshake, _: bool) -> Secrets {
    match state.0 {}
}
