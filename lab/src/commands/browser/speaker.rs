//! The demonstration of `docs/guide/live.md`: its steps by clicks in the page, what each must show, and the guide's pictures.

use super::chromium::Chromium;
use super::{SOON, click, press};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The scenario, and the minutes for which it goes on.
pub(super) const SCENARIO: &str = "live";
pub(super) const MINUTES: &str = "2";
/// Requests a second between those that alice gets as an equal of her neighbour, and those that she gets before her.
const BETWEEN: u32 = 350;
/// Time in which a change becomes a part of a curve.
const CURVE: Duration = Duration::from_secs(8);
/// The parts of the page that pictures show.
const FIGURES: &str = "thead, #curves";
const CURVES: &str = "#curves";
const HAPPENED: &str = ".columns";

/// Gives the demonstration. The pictures go into this folder.
pub(super) fn give(page: &mut Chromium, pictures: &Path) -> Result<()> {
    fs::create_dir_all(pictures).with_context(|| format!("cannot make the folder {}", pictures.display()))?;
    let picture = |page: &mut Chromium, name: &str, selectors: &str| {
        thread::sleep(CURVE);
        page.picture(selectors, &pictures.join(format!("live-{name}.webp")))
    };
    noisy_neighbour(page)?;
    thread::sleep(CURVE);
    page.wait("class high", &chosen("alice", "high"), SOON)?;
    click(page, "alice", "set")?;
    page.wait("that alice is served before carol", &rate("alice", &format!("> {BETWEEN}")), SOON)?;
    picture(page, "class", FIGURES)?;
    page.wait("class urgent", &chosen("carol", "urgent"), SOON)?;
    press(page, "carol", "set")?;
    let refusal = "document.getElementById('answer').textContent.includes('of a session that may have low at most')";
    page.wait("a refusal", refusal, SOON)?;
    revocation(page)?;
    picture(page, "revoked", CURVES)?;
    click(page, "frank", "grant")?;
    page.wait("that frank goes on", &rate("frank", "> 100"), SOON)?;
    page.wait("an attack", &logged("mallory has tried", 1), SOON)?;
    click(page, "mallory", "kill")?;
    page.wait("the next attack", &logged("and all were refused", 2), SOON)?;
    page.wait("that alice notices nothing", &rate("alice", &format!("> {BETWEEN}")), SOON)?;
    click(page, "nvme-server", "kill")?;
    page.wait("the restart", &logged("nvme-server runs again", 1), SOON)?;
    page.wait("the restart in each curve", "document.querySelectorAll('.curve line.restart').length >= 3", SOON)?;
    page.wait("that alice goes on before carol", &rate("alice", &format!("> {BETWEEN}")), SOON)?;
    picture(page, "restart", CURVES)?;
    page.wait("the acts in the log", &logged("an operator acts on", 8), SOON)?;
    page.picture(HAPPENED, &pictures.join("live-happened.webp"))
}

/// Alice waits for her neighbour's requests, and does not while that is paused.
fn noisy_neighbour(page: &mut Chromium) -> Result<()> {
    let equal = rate("alice", &format!("> 20 && {} < {BETWEEN}", rate("alice", "")));
    page.wait("a noisy neighbour", &rate("carol", "> 600"), SOON)?;
    page.wait("its neighbour", &equal, SOON)?;
    click(page, "carol", "pause")?;
    page.wait("alice alone", &rate("alice", &format!("> {BETWEEN}")), SOON)?;
    click(page, "carol", "resume")?;
    page.wait("both again", &equal, SOON)
}

/// Frank loses all blocks: his curve stops, and the page says why.
fn revocation(page: &mut Chromium) -> Result<()> {
    click(page, "frank", "revoke")?;
    page.wait("that frank gets nothing done", &rate("frank", "=== 0"), SOON)?;
    let reason = "document.querySelector('.curve[data-tenant=frank] .why').textContent.includes('no rights')";
    page.wait("the reason", reason, SOON)?;
    page.wait("the event", &logged("frank loses all rights to 4096 blocks", 1), SOON)
}

/// The tenant's rate, compared.
fn rate(tenant: &str, compared: &str) -> String {
    format!("Number(document.querySelector('tr[data-tenant={tenant}]')?.dataset.rate) {compared}")
}

/// Chooses a class for a tenant.
fn chosen(tenant: &str, class: &str) -> String {
    format!("(document.querySelector('.acts[data-component={tenant}] select').value = '{class}') === '{class}'")
}

/// Whether so many lines of the log have these words.
fn logged(words: &str, lines: usize) -> String {
    format!(
        "[...document.querySelectorAll('#log li')].filter((line) => line.textContent.includes('{words}')).length >= {lines}"
    )
}
