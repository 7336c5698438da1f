//! One POST of JSON over HTTP/1.1.

use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

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
}

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error("is {got:?}, expected http://HOST[:PORT]/PATH (for https:// put a relay before it)")]
pub struct TargetError {
    got: String,
}

/// Why a notice was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The way there.
    #[error("{0}")]
    Io(#[from] std::io::Error),
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
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // A name and password before the host would be a secret in the settings.
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return Err(wrong());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { authority, path: format!("/{path}") })
    }
}

impl Target {
    /// Sends a body; fine once the receiver has answered with success.
    ///
    /// # Errors
    /// Why it is not known to be taken.
    pub(super) async fn post(
        &self,
        headers: &[(&str, String)],
        body: &str,
    ) -> Result<(), PostError> {
        tokio::time::timeout(PATIENCE, self.exchange(headers, body))
            .await
            .unwrap_or(Err(PostError::Late))
    }

    async fn exchange(&self, headers: &[(&str, String)], body: &str) -> Result<(), PostError> {
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
        let mut stream = TcpStream::connect(&self.authority).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line).await?;
        let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
        match code {
            Some(200..=299) => Ok(()),
            _ => Err(PostError::Refused(line.trim().to_owned())),
        }
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
        for wrong in ["https://a/", "a", "http://", "http://u:p@h/", "http://h/\r\nX: y", ""] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong:?}");
        }
    }
}
