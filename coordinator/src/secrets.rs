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

/// HMAC-SHA-256 (RFC 2104) of bytes under a key, as hexadecimal digits.
#[must_use]
pub fn keyed_digest(key: &[u8], bytes: &[u8]) -> String {
    const BLOCK: usize = 64;
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(bytes).finalize();
    hex(&Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize())
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

#[cfg(test)]
mod keyed {
    use super::keyed_digest;

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn agrees_with_the_standard() {
        let found = keyed_digest(b"Jefe", b"what do ya want for nothing?");
        let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(found, wanted);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let wanted = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(keyed_digest(&[0xaa; 131], text), wanted);
    }
}
