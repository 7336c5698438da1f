//! Network namespaces: machines of their own as far as the network goes, whose cable can be pulled.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A namespace for each node, joined to this machine by a pair of virtual cards; gone with this
/// value.
#[derive(Debug)]
pub struct Namespaces {
    /// Third byte of all addresses, 10.213.NET.x, and part of all names.
    net: u8,
    count: usize,
}

impl Namespaces {
    /// Makes some; `None`, with a message, where that is not permitted.
    ///
    /// # Errors
    /// It is permitted, and fails all the same.
    pub fn make(count: usize) -> Result<Option<Self>> {
        if let Some(why) = forbidden() {
            eprintln!("skipped: network namespaces cannot be made here: {why}");
            return Ok(None);
        }
        ensure!(count < 250, "{count} namespaces are too many");
        let net = (std::process::id() % 250) as u8;
        let made = Self { net, count };
        for node in 0..count {
            made.make_one(node)?;
        }
        Ok(Some(made))
    }

    fn make_one(&self, node: usize) -> Result<()> {
        let (name, card) = (self.name(node), self.card(node));
        let (here, there) = (self.host().to_string(), self.address(node).to_string());
        ip(&["netns", "add", &name])?;
        ip(&["link", "add", &card, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
        ip(&["address", "add", &format!("{here}/32"), "dev", &card])?;
        ip(&["link", "set", &card, "up"])?;
        ip(&["route", "add", &there, "dev", &card])?;
        ip(&["-n", &name, "address", "add", &format!("{there}/32"), "dev", "eth0"])?;
        ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        ip(&["-n", &name, "route", "add", &here, "dev", "eth0"])
    }

    fn name(&self, node: usize) -> String {
        format!("swtest{}-{node}", self.net)
    }

    fn card(&self, node: usize) -> String {
        format!("swt{}-{node}", self.net)
    }

    /// Address of this machine, as the nodes reach it.
    #[must_use]
    pub fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.net, 1)
    }

    /// Address of a node.
    #[must_use]
    pub fn address(&self, node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.net, 2 + node as u8)
    }

    /// A program that will run in a node's namespace.
    #[must_use]
    pub fn command(&self, node: usize, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name(node))).arg("--").arg(program);
        command
    }

    /// Pulls a node's cable: what is sent either way is lost, and nobody is told.
    ///
    /// # Errors
    /// The system refuses.
    pub fn cut(&self, node: usize) -> Result<()> {
        ip(&["-n", &self.name(node), "link", "set", "eth0", "down"])
    }

    /// Plugs it in again.
    ///
    /// # Errors
    /// The system refuses.
    pub fn heal(&self, node: usize) -> Result<()> {
        let name = self.name(node);
        ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        // The route went with the link.
        ip(&["-n", &name, "route", "replace", &self.host().to_string(), "dev", "eth0"])
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in 0..self.count {
            // The namespace takes both cards along once nothing runs in it.
            let _ = ip(&["link", "del", &self.card(node)]);
            let _ = ip(&["netns", "del", &self.name(node)]);
        }
    }
}

/// Why they cannot be made, if so.
#[must_use]
pub fn forbidden() -> Option<String> {
    let probe = format!("swprobe{}", std::process::id());
    let made = ip(&["netns", "add", &probe]);
    let _ = ip(&["netns", "del", &probe]);
    made.err().map(|error| format!("{error:#} (root and iproute2 are needed)"))
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("ip {}", arguments.join(" ")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), said.trim());
    Ok(())
}
