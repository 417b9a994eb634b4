//! Chromium without a window, driven by its debugging protocol over two pipes: messages of JSON, each ended by a zero byte.
//!
//! The pipes are named ones that a shell opens as descriptors 3 and 4, where Chromium expects them.

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::project::write_whole;

/// Seconds after which it is ended, whatever it does.
const LONGEST_SECONDS: u32 = 1500;
/// Width of a page, pixels.
const WIDTH: u32 = 1400;
/// Space around a picture, pixels.
const MARGIN: u32 = 8;
/// Time between two looks at a page.
const TRY: Duration = Duration::from_millis(200);

/// A browser with a page.
pub(super) struct Chromium {
    child: Child,
    to: File,
    from: BufReader<File>,
    /// Number of the last request.
    number: u64,
    /// The session with the page.
    session: Option<String>,
    _folder: TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.ask("Browser.close", json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Chromium {
    /// Opens a page.
    pub(super) fn open(url: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let [to, from, profile] = ["to", "from", "profile"].map(|name| folder.path().join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status().context("cannot run mkfifo")?;
        anyhow::ensure!(made.success(), "mkfifo fails");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("to=$1 from=$2; shift 2; exec timeout -k 5 \"$@\" 3<\"$to\" 4>\"$from\"").arg("sh");
        shell.args([&to, &from]).arg(LONGEST_SECONDS.to_string()).args(["chromium", "--headless", "--disable-gpu"]);
        // Its sandbox refuses root, and a container's user.
        shell.args([
            "--no-sandbox",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
        ]);
        shell.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.context("cannot run a shell")?;
        let to = OpenOptions::new().write(true).open(&to).context("cannot open the pipe to Chromium")?;
        let from = BufReader::new(File::open(&from).context("cannot open the pipe from Chromium")?);
        let mut browser = Self { child, to, from, number: 0, session: None, _folder: folder };
        let target = browser.ask("Target.createTarget", json!({ "url": url }))?["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        // Pictures are as wide as a document shows them.
        let size = json!({ "width": WIDTH, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.ask("Emulation.setDeviceMetricsOverride", size)?;
        Ok(browser)
    }

    /// Waits until this expression is true in the page.
    pub(super) fn wait(&mut self, what: &str, expression: &str, most: Duration) -> Result<()> {
        let since = Instant::now();
        loop {
            let value = self.value(expression)?;
            if value == true {
                return Ok(());
            }
            if since.elapsed() > most {
                let shown = self.value("document.body.innerText")?;
                bail!("the page does not show {what}, but: {}", shown.as_str().unwrap_or_default());
            }
            thread::sleep(TRY);
        }
    }

    /// Writes a picture of the parts of the page that these selectors name, and of what is between them.
    pub(super) fn picture(&mut self, selectors: &str, file: &Path) -> Result<()> {
        let bounds = format!(
            "(() => {{ const all = [...document.querySelectorAll('{selectors}')].map((one) => one.getBoundingClientRect()); \
             const [x, y] = [Math.min(...all.map((one) => one.left)), Math.min(...all.map((one) => one.top))]; \
             const ends = [Math.max(...all.map((one) => one.right)), Math.max(...all.map((one) => one.bottom))]; \
             return {{ x: x + scrollX - {MARGIN}, y: y + scrollY - {MARGIN}, width: ends[0] - x + 2 * {MARGIN}, \
             height: ends[1] - y + 2 * {MARGIN}, scale: 1 }}; }})()"
        );
        let clip = self.value(&bounds)?;
        let parameters = json!({ "format": "webp", "quality": 70, "captureBeyondViewport": true, "clip": clip });
        let answer = self.ask("Page.captureScreenshot", parameters)?;
        let bytes = answer["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
        write_whole(file, &bytes.context("Chromium's picture does not decode")?)
    }

    /// The value of an expression in the page; null while it is loaded.
    fn value(&mut self, expression: &str) -> Result<Value> {
        let answer = self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }))?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("'{expression}' fails in the page: {exception}");
        }
        Ok(answer["result"]["value"].clone())
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&request)?;
        bytes.push(0);
        self.to.write_all(&bytes).context("Chromium does not listen")?;
        loop {
            let mut message = Vec::new();
            let count = self.from.read_until(0, &mut message).context("Chromium says nothing")?;
            anyhow::ensure!(count > 0, "Chromium has ended");
            message.pop();
            let message: Value = serde_json::from_slice(&message).context("Chromium's answer is no JSON")?;
            if message["id"] == self.number {
                anyhow::ensure!(message.get("error").is_none(), "Chromium refuses {method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
        }
    }
}
