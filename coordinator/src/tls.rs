//! Certificates: those that the coordinator shows, those that it wants to see, and new ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::files::{FileError, at, make_folder, write_atomic};

/// PEM files of the coordinator's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, with those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signed it: this machine's own commands and training check it with this.
    pub authority: PathBuf,
    /// The authority whose certificates agents must show; none: a token is enough.
    pub agents: Option<PathBuf>,
}

impl ServerFiles {
    /// What the server is configured to.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it is to, or a key that is not the
    /// certificate's.
    pub fn config(&self) -> Result<ServerTlsConfig, ServerFilesError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        self.check_pair(&certificate, &key)?;
        certificates(&self.authority, &read(&self.authority)?)?;
        let config = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        Ok(match &self.agents {
            // Users and training processes show tokens instead.
            Some(file) => {
                let authority = read(file)?;
                certificates(file, &authority)?;
                config.client_ca_root(Certificate::from_pem(authority)).client_auth_optional(true)
            }
            None => config,
        })
    }

    fn check_pair(&self, certificate: &[u8], key: &[u8]) -> Result<(), ServerFilesError> {
        let chain = certificates(&self.certificate, certificate)?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|_| holds_no("private key", &self.key))?;
        let provider = Arc::new(crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let paired = config.and_then(|it| it.with_no_client_auth().with_single_cert(chain, key));
        paired.map(drop).map_err(|cause| ServerFilesError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            cause: cause.to_string(),
        })
    }
}

/// PEM files with which no server can be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerFilesError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds something else.
    #[error("{} holds no {what} in PEM", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What it is to hold.
        what: &'static str,
    },
    /// Key and certificate are not of one another, or of a sort that is not known.
    #[error("{} and {} do not belong together: {cause}", certificate.display(), key.display())]
    Pair {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

/// The certificates of a file, at least one.
fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ServerFilesError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| holds_no("certificate", file))
}

fn holds_no(what: &'static str, file: &Path) -> ServerFilesError {
    ServerFilesError::Content { file: file.to_owned(), what }
}

/// What a caller of an `https://` coordinator is configured to: the authority that it trusts, and
/// the certificate and key that it shows.
///
/// # Errors
/// A file that cannot be read.
pub fn client_config(
    authority: &Path,
    identity: Option<(&Path, &Path)>,
) -> Result<ClientTlsConfig, FileError> {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority)?));
    Ok(match identity {
        Some((certificate, key)) => {
            config.identity(Identity::from_pem(read(certificate)?, read(key)?))
        }
        None => config,
    })
}

/// What is to be said when a call broke because one side speaks TLS and the other plain text;
/// nothing where that is not what happened.
#[must_use]
pub fn mismatch(address: &str, status: &tonic::Status) -> Option<String> {
    let mut chain = String::new();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        chain.push_str(&error.to_string());
        chain.push(' ');
        cause = error.source();
    }
    // A TLS server answers plain HTTP/2 with an alert, which is no frame; a connection that is
    // refused or breaks later says something else.
    let garbled = "frame with invalid size";
    let is_garbled = chain.contains(garbled) || status.message().contains(garbled);
    if address.starts_with("http://") && is_garbled {
        return Some(format!(
            "{address} does not speak plain text: a coordinator with TLS is reached at {} (with \
             --authority FILE)",
            address.replacen("http://", "https://", 1)
        ));
    }
    let no_tls = chain.contains("InvalidContentType") || chain.contains("corrupt message");
    (address.starts_with("https://") && no_tls).then(|| {
        let plain = address.replacen("https://", "http://", 1);
        format!("{address} does not speak TLS: is it {plain}?")
    })
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    at("read", path, std::fs::read(path))
}

/// Why no certificates were made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that is there already: keys are never overwritten.
    #[error("{} is there already; choose another folder", .0.display())]
    Exists(PathBuf),
    /// A name that no certificate can carry.
    #[error("no certificate could be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Makes an authority and, signed by it, a certificate for the coordinator at `hosts` and one for
/// agents: `ca.pem`, `coordinator.pem`, `agent.pem`, and a `.key` beside each.
///
/// # Errors
/// [`GenerateError`]; files that were written before stay.
pub fn generate(folder: &Path, hosts: &[String]) -> Result<Vec<PathBuf>, GenerateError> {
    make_folder(folder)?;
    let mut written = Vec::new();
    let mut put = |name: &str, pem: &str| -> Result<(), GenerateError> {
        let path = folder.join(name);
        if path.exists() {
            return Err(GenerateError::Exists(path));
        }
        write_atomic(&path, pem.as_bytes())?;
        written.push(path);
        Ok(())
    };
    let key = KeyPair::generate()?;
    let mut params = named("Shockwave authority", &[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    put("ca.pem", &params.self_signed(&key)?.pem())?;
    put("ca.key", &key.serialize_pem())?;
    let issuer = Issuer::new(params, key);
    let mut all: Vec<String> = vec!["localhost".into(), "127.0.0.1".into(), "::1".into()];
    all.extend(hosts.iter().cloned());
    for (file, name, hosts) in
        [("coordinator", "Shockwave coordinator", all), ("agent", "Shockwave agent", Vec::new())]
    {
        let key = KeyPair::generate()?;
        let certificate = named(name, &hosts)?.signed_by(&key, &issuer)?;
        put(&format!("{file}.pem"), &certificate.pem())?;
        put(&format!("{file}.key"), &key.serialize_pem())?;
    }
    Ok(written)
}

fn named(name: &str, hosts: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
