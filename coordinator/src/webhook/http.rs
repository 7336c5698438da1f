//! One POST of JSON over HTTP/1.1, plain or over TLS.

use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Longest time for one attempt.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest first line of an answer, bytes.
const LINE_BYTES_MAX: u64 = 1024;

/// A receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `HOST:PORT`.
    authority: String,
    /// With its query.
    path: String,
    /// Whom its certificate must name; none: plain text.
    tls: Option<ServerName<'static>>,
}

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("is {got:?}, expected http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH")]
pub struct TargetError {
    got: String,
}

/// Why a notice was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The way there.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Its certificate, or what else TLS needs.
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    /// No answer in time.
    #[error("no answer within 10 s")]
    Late,
    /// Another answer than one of success.
    #[error("the receiver answered {0:?}, expected a code from 200 to 299")]
    Refused(String),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError { got: text.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let usual_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong()),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // A name and password before the host would be a secret in the settings.
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return Err(wrong());
        }
        let port = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let name = port.map_or(host, |(name, _)| name);
        let authority = match port {
            Some(_) => host.to_owned(),
            None => format!("{host}:{usual_port}"),
        };
        let tls = match scheme {
            "https" => {
                let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some(ServerName::try_from(name).map_err(|_| wrong())?)
            }
            _ => None,
        };
        Ok(Self { authority, path: format!("/{path}"), tls })
    }
}

impl Target {
    /// Sends a body; fine once the receiver has answered with success.
    ///
    /// # Errors
    /// Why it is not known to be taken.
    pub(super) async fn post(
        &self,
        connector: Option<&TlsConnector>,
        headers: &[(&str, String)],
        body: &str,
    ) -> Result<(), PostError> {
        let request = self.request(headers, body);
        let exchange = async {
            let stream = TcpStream::connect(&self.authority).await?;
            match (&self.tls, connector) {
                (Some(name), Some(connector)) => {
                    let stream = connector.connect(name.clone(), stream).await;
                    exchange(stream.map_err(PostError::Tls)?, &request).await
                }
                (Some(_), None) => {
                    Err(PostError::Tls(std::io::Error::other("there is no authority to check it")))
                }
                (None, _) => exchange(stream, &request).await,
            }
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or(Err(PostError::Late))
    }

    /// Whether it is to show a certificate.
    pub(super) fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    fn request(&self, headers: &[(&str, String)], body: &str) -> String {
        let mut request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\nUser-Agent: shockwave\r\n",
            self.path,
            self.authority,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        request
    }
}

async fn exchange<S>(mut stream: S, request: &str) -> Result<(), PostError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut line = String::new();
    BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line).await?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=299) => Ok(()),
        _ => Err(PostError::Refused(line.trim().to_owned())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        let check = |text: &str, authority: &str, path: &str| {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path));
        };
        check("http://127.0.0.1:9000/hook?x=1", "127.0.0.1:9000", "/hook?x=1");
        check("http://relay", "relay:80", "/");
        check("http://[::1]:8/a", "[::1]:8", "/a");
        check("https://relay.example.org/hook", "relay.example.org:443", "/hook");
        check("https://[::1]:8/a", "[::1]:8", "/a");
        for wrong in
            ["ftp://a/", "https://a_%/", "a", "http://", "http://u:p@h/", "http://h/\r\nX: y", ""]
        {
            assert!(wrong.parse::<Target>().is_err(), "{wrong:?}");
        }
    }
}
