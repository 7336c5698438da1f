//! Random names and secrets, and how secrets are kept: only their digest is ever stored.

use rand::RngCore;
use sha2::{Digest, Sha256};

/// `bytes` random bytes of the operating system, as hexadecimal digits.
///
/// # Panics
/// When the operating system gives no randomness: no secret can be made then.
#[must_use]
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    rand::rng().fill_bytes(&mut buffer);
    hex(&buffer)
}

/// SHA-256 of a text, as hexadecimal digits.
#[must_use]
pub fn digest(text: &str) -> String {
    digest_bytes(text.as_bytes())
}

/// SHA-256 of bytes, as hexadecimal digits.
#[must_use]
pub fn digest_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether `secret` has this digest, in time that does not depend on where they differ.
#[must_use]
pub fn matches(secret: &str, digest_hex: &str) -> bool {
    let own = digest(secret);
    own.len() == digest_hex.len()
        && own.bytes().zip(digest_hex.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
