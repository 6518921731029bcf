//! `aws_lc_rs::aead` without its functions.

use super::never::{Absent, Never};

pub(crate) const NONCE_LEN: usize = 12;
pub(crate) static AES_128_GCM: Algorithm = Algorithm;
pub(crate) static AES_256_GCM: Algorithm = Algorithm;
pub(crate) static CHACHA20_POLY1305: Algorithm = Algorithm;

pub(crate) struct Algorithm;

impl Algorithm {
    pub(crate) fn key_len(&self) -> usize {
        32
    }
}

pub(crate) struct UnboundKey(Never);

impl UnboundKey {
    pub(crate) fn new(_: &'static Algorithm, _: &[u8]) -> Result<Self, Absent> {
        Err(Absent)
    }
}

pub(crate) struct LessSafeKey(Never);

impl LessSafeKey {
    pub(crate) fn new(key: UnboundKey) -> Self {
        match key.0 {}
    }

    pub(crate) fn seal_in_place_separate_tag(
        &self,
        _: Nonce,
        _: Aad,
        _: &mut [u8],
    ) -> Result<[u8; 16], Absent> {
        match self.0 {}
    }

    pub(crate) fn seal_in_place_scatter(
        &self,
        _: Nonce,
        _: Aad,
        _: &mut [u8],
        _: &[u8],
        _: &mut [u8],
    ) -> Result<(), Absent> {
        match self.0 {}
    }

    pub(crate) fn open_in_place<'a>(
        &self,
        _: Nonce,
        _: Aad,
        _: &'a mut [u8],
    ) -> Result<&'a mut [u8], Absent> {
        match self.0 {}
    }
}

pub(crate) struct Nonce;

impl Nonce {
    pub(crate) fn assume_unique_for_key(_: [u8; NONCE_LEN]) -> Self {
        Nonce
    }
}

pub(crate) struct Aad;

impl From<&[u8]> for Aad {
    fn from(_: &[u8]) -> Self {
        Aad
    }
}
