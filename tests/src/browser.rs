//! A real browser without a window: Chromium, driven over the WebDriver protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Longest time for one command of the browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page; it ends with this value.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one; none, with a message, where Chromium or its driver is not installed.
    ///
    /// # Errors
    /// It is there and does not start.
    pub fn start() -> Result<Option<Self>> {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = match driver {
            Ok(driver) => driver,
            Err(error) => {
                eprintln!("skipped: chromedriver: {error} (Debian: chromium, chromium-driver)");
                return Ok(None);
            }
        };
        let stdout = driver.stdout.take().context("standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let port = loop {
            let line = lines.next().context("chromedriver ended")??;
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').parse()?;
            }
        };
        // What it says later is read and thrown away, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new() };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.call("POST", "/session", &wanted)?;
        browser.session = made["sessionId"].as_str().context("no session")?.to_owned();
        Ok(Some(browser))
    }

    /// Opens a page.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub fn open(&self, url: &str) -> Result<()> {
        self.of_session("/url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page and gives what it returns.
    ///
    /// # Errors
    /// It throws.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.of_session("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Runs a script until it returns something true, and gives that.
    ///
    /// # Errors
    /// It throws, or does not within a minute.
    pub fn until(&self, script: &str) -> Result<Value> {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            let value = self.run(script)?;
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return Ok(value);
            }
            if Instant::now() > give_up_at {
                let text = self.run("return document.body.innerText")?;
                bail!("{script} never came true; the page says: {text}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Makes the page so wide, pixels; narrow ones are a telephone's.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn resize(&self, width: u32) -> Result<()> {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    /// Prefers a dark or a light page.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn prefer(&self, scheme: &str) -> Result<()> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features })).map(drop)
    }

    /// Presses a key of the keyboard, such as "Tab".
    ///
    /// # Errors
    /// The browser refuses.
    pub fn press(&self, key: &str, code: u32) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.devtools("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// The page as a PNG picture, down to `height` pixels at most.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn screenshot(&self, height: u32) -> Result<Vec<u8>> {
        let size = self.run(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]",
        )?;
        let tall = size[1].as_u64().context("no height")?.min(u64::from(height));
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": tall, "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.devtools("Page.captureScreenshot", &wanted)?;
        base64(picture["data"].as_str().context("no picture")?).context("not base64")
    }

    /// What the page has complained about since the last call.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn complaints(&self) -> Result<Vec<String>> {
        let log = self.of_session("/se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().context("no log")?.iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        Ok(severe.map(|entry| entry["message"].to_string()).collect())
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Result<Value> {
        self.of_session("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    fn of_session(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// One call: HTTP/1.1 with a body of JSON either way.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(reader.read_line(&mut line)? > 0, "{path}: the answer broke off");
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        let mut answer: Value = serde_json::from_slice(&answer)?;
        let value = answer["value"].take();
        ensure!(value.get("error").is_none(), "{path}: {value}");
        Ok(value)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.call("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Bytes from their base64 form; none where it is not one.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("TWFu").as_deref(), Some(&b"Man"[..]));
        assert_eq!(base64("TWE=").as_deref(), Some(&b"Ma"[..]));
        assert_eq!(base64("T-").as_deref(), None);
    }
}
