//! `aws_lc_rs::hkdf` without its functions.

use super::never::Absent;

pub(crate) struct Hash;
pub(crate) const HKDF_SHA256: Hash = Hash;

pub(crate) trait KeyType {
    fn len(&self) -> usize;
}

pub(crate) struct Prk;

impl Prk {
    pub(crate) fn new_less_safe(_: Hash, _: &[u8]) -> Self {
        Prk
    }

    pub(crate) fn expand(&self, _: &[&[u8]], len: impl KeyType) -> Result<Okm, Absent> {
        let _ = len.len();
        Err(Absent)
    }
}

pub(crate) struct Okm(super::never::Never);

impl Okm {
    pub(crate) fn fill(&self, _: &mut [u8]) -> Result<(), Absent> {
        match self.0 {}
    }
}
