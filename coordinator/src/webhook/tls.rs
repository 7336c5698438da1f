//! Which receivers are trusted.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Where systems keep the authorities that they trust: Debian, Ubuntu and Arch; Fedora and Red Hat;
/// SUSE.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Trusts the authorities in a file of PEM, or those of the system.
///
/// # Errors
/// In one sentence that names the setting.
pub(super) fn connector(authority: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(file) => {
            let wrong = |what: &str| format!("--webhook-authority {}: {what}", file.display());
            for certificate in read(file).map_err(|error| wrong(&error))? {
                roots.add(certificate).map_err(|error| wrong(&error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("holds no certificate, expected some in PEM"));
            }
        }
        None => {
            let found = SYSTEM.map(Path::new).into_iter().find(|file| file.exists());
            // Systems ship some that no longer parse: those are passed over.
            roots.add_parsable_certificates(found.map(read).transpose()?.unwrap_or_default());
            if roots.is_empty() {
                return Err(format!(
                    "--webhook is at https:// and this system trusts no authority ({}); name one \
                     with --webhook-authority FILE",
                    SYSTEM.join(", ")
                ));
            }
        }
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("--webhook: {error}"))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    found.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
