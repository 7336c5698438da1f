//! HTTP/2 by hand, for what no well-behaved client does.

#![allow(dead_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Longest time that a test waits for what must come: less than every default of what it has set.
pub const PATIENCE: Duration = Duration::from_secs(9);

pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// What every connection begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// A setting, if this frame says it.
    pub fn setting(&self, id: u16) -> Option<u32> {
        let mut entries = self.payload.chunks_exact(6).filter(|_| self.kind == SETTINGS);
        let entry = entries.find(|it| it[..2] == id.to_be_bytes())?;
        Some(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
    }

    /// Why a stream or a connection ends.
    pub fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload.get(at..at + 4)?.try_into().ok()?))
    }
}

/// A connection.
pub struct Raw {
    pub stream: TcpStream,
    pub answers_pings: bool,
}

/// Connects from one of this machine's own addresses (127.0.0.N).
pub async fn connect(to: SocketAddr, from: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, from));
    socket.bind((from, 0).into()).expect("an address of this machine");
    socket.connect(to).await.expect("it listens")
}

/// Waits for the other side to close; what it said before.
pub async fn closed(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    // A reset is an end, too.
    match tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await {
        Ok(_) => Some(said),
        Err(_) => None,
    }
}

impl Raw {
    /// A connection that has opened: it has heard the server's settings.
    pub async fn open(to: SocketAddr, from: u8) -> (Self, Frame) {
        let mut raw = Self::greet(to, from).await;
        let frame = raw.next().await.expect("it is let in");
        assert_eq!(frame.kind, SETTINGS);
        (raw, frame)
    }

    /// A connection that has said its part.
    pub async fn greet(to: SocketAddr, from: u8) -> Self {
        let mut raw = Self { stream: connect(to, from).await, answers_pings: true };
        // It may be closed meanwhile.
        let _ = raw.stream.write_all(PREFACE).await;
        let _ = raw.send(SETTINGS, 0, 0, &[]).await;
        raw
    }

    pub async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> std::io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload)).await
    }

    /// The next frame; none when the connection is closed or nothing comes in time.
    pub async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.read()).await.ok()?
    }

    async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.ok()?;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        let is_question = frame.flags & ACK == 0;
        if frame.kind == PING && is_question && self.answers_pings {
            self.send(PING, ACK, 0, &frame.payload).await.ok()?;
        }
        if frame.kind == SETTINGS && is_question {
            self.send(SETTINGS, ACK, 0, &[]).await.ok()?;
        }
        Some(frame)
    }

    /// The next frame of one of these kinds; none when the connection is closed before, or nothing
    /// of them comes in time.
    pub async fn next_of(&mut self, kinds: &[u8]) -> Option<Frame> {
        let find = async {
            loop {
                let frame = self.read().await?;
                if kinds.contains(&frame.kind) {
                    return Some(frame);
                }
            }
        };
        tokio::time::timeout(PATIENCE, find).await.ok()?
    }
}

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a call whose message never comes.
pub fn call(stream: u32, method: &str, token: &str) -> Vec<u8> {
    let bearer = format!("Bearer {token}");
    let entries = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "127.0.0.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", &bearer),
    ];
    let block: Vec<u8> = entries.iter().flat_map(|(name, value)| literal(name, value)).collect();
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// A call that is taken back in the same moment.
pub fn call_and_reset(stream: u32, method: &str, token: &str) -> Vec<u8> {
    let mut bytes = call(stream, method, token);
    bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    bytes
}

/// A header entry that is in no table.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        let mut rest = text.len();
        if rest < 127 {
            bytes.push(rest as u8);
        } else {
            bytes.push(127);
            rest -= 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
        bytes.extend(text.bytes());
    }
    bytes
}

/// A head that never ends: one entry, then so many more bytes in parts, and no last part.
pub fn endless_head(stream: u32, parts: usize) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_STREAM, stream, &literal("x-first", "1"));
    let part: Vec<u8> = (0..10).flat_map(|_| literal("x-more", &"y".repeat(1000))).collect();
    for _ in 0..parts {
        bytes.extend(frame(CONTINUATION, 0, stream, &part));
    }
    bytes
}
