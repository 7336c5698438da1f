//! Certificates: those that the coordinator shows, those that it wants to see, and new ones.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
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
    /// A file that cannot be read.
    pub fn config(&self) -> Result<ServerTlsConfig, FileError> {
        let identity = Identity::from_pem(read(&self.certificate)?, read(&self.key)?);
        let config = ServerTlsConfig::new().identity(identity);
        Ok(match &self.agents {
            // Users and training processes show tokens instead.
            Some(file) => {
                let authority = Certificate::from_pem(read(file)?);
                config.client_ca_root(authority).client_auth_optional(true)
            }
            None => config,
        })
    }
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
