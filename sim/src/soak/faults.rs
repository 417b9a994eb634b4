//! Faults of commands, controllers and components that the system survives.
//!
//! Tenants retry requests that the controller fails. So its faults cost time and never data, for as long as it can be
//! brought up. A recovery has three attempts, and a fault that could take more than one of them is drawn once. With two
//! controllers, one may be lost for good, or come back as another disk, or with fewer queue pairs. An attacker retries nothing, so
//! its controller is only slow.

use super::{Controller, Draw, Expect};
use std::fmt::Write as _;

/// Effects on commands that every tenant survives, with their maximum number.
const DAWDLE: [(&str, u64); 4] =
    [("{ delay = { ns = 3000000 } }", 50), ("\"lose-interrupt\"", 20), ("\"late-sqhd\"", 50), ("\"wrong-sqhd\"", 50)];
/// Effects on commands that are retried, the first ones by the server; those from the sixth on make it reset its controller.
const FAIL: [(&str, u64); 10] = [
    ("{ not-now = { status = \"namespace-not-ready\" } }", 50),
    ("{ not-now = { status = \"command-interrupted\", crd = 1 } }", 20),
    ("{ not-now = { status = \"transient-transport-error\", crd = 2 } }", 20),
    ("{ status = { sct = 2, sc = 0x81 } }", 20),
    ("{ status = { sct = 0, sc = 0x06 } }", 20),
    // Longer than the server waits, so that the command is still in flight when the controller is reset.
    ("{ delay = { ns = 11000000000 } }", 1),
    ("\"drop-completion\"", 2),
    ("\"duplicate-completion\"", 2),
    ("\"wrong-cid\"", 2),
    ("\"stale-phase\"", 2),
];
/// Turns of its executor that a client with a load may have. A client with fewer dies when its work is finished.
const TURNS: u64 = 200;
/// Time at which servers have their controllers, in nanoseconds after the start; most loads have finished by twice that time.
const UP_NS: u64 = 50_000_000;

/// Draws up to three faults.
pub(super) fn draw(draw: &mut Draw, controllers: &[Controller], expect: &mut Expect, text: &mut String) {
    let mut loss_is_possible = controllers.len() > 1;
    let mut is_admin_queue_hit = false;
    for _ in 0..draw.below(4) {
        let controller = &controllers[draw.below(controllers.len() as u64) as usize];
        let is_lost = expect.lost.contains(&controller.name);
        let has_crash = controller.loads.iter().any(|load| expect.faults.contains(load));
        let fault = match draw.below(12) {
            0 | 1 => draw.command(controller, &DAWDLE),
            2 => draw.notice(controller),
            3 => draw.slow(controller),
            // A tenant whose controller is lost may end before it could crash.
            4 if controller.loads.len() > 1 && !has_crash && !is_lost => draw.crash(controller, expect),
            _ if controller.attacker.is_some() || is_lost => draw.command(controller, &DAWDLE),
            5 | 6 if loss_is_possible && !has_crash => {
                loss_is_possible = false;
                expect.lost.push(controller.name.clone());
                draw.loss(controller, text)
            }
            7 if !is_admin_queue_hit => {
                is_admin_queue_hit = true;
                draw.admin_command(controller)
            }
            8 => {
                draw.lesser(controller, text);
                draw.controller_fault(controller, 1_000_000, "\"fatal-status\"")
            }
            9 => {
                draw.lesser(controller, text);
                let for_ns = 1_000_000 + draw.below(40_000_000);
                // This may also happen before a server's first poll: the server waits longer than that.
                draw.controller_fault(controller, 1_000_000, &format!("{{ all-ones = {{ for_ns = {for_ns} }} }}"))
            }
            _ => draw.command(controller, &FAIL),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[fault]]\n{fault}\n");
    }
}

/// Writes what the controller is after its first reset, unless that was written already.
fn put_later(controller: &Controller, keys: &str, change: &str, text: &mut String) {
    let head = format!("[[controller]]\nname = \"{}\"\n", controller.name);
    if text.contains(&format!("{head}quirks")) || text.contains(&format!("{head}later")) {
        return;
    }
    // With virtual functions it is enabled twice at first.
    let enabling = if controller.functions > 0 { 3 } else { 2 };
    let later = format!("{head}{keys}later = [{{ enabling = {enabling}, {change} }}]\n");
    *text = text.replacen(&head, &later, 1);
}

impl Draw {
    fn command(&mut self, controller: &Controller, effects: &[(&str, u64)]) -> String {
        let (effect, times) = self.one_of(effects);
        let (name, per_million) = (&controller.name, 100 + self.below(5_000));
        format!(
            "command = {{ controller = \"{name}\", per_million = {per_million}, times = {times}, effect = {effect} }}"
        )
    }

    /// Draws a fault of one of the first administrative commands, which bring the controller up and open sessions.
    fn admin_command(&mut self, controller: &Controller) -> String {
        let (name, skip) = (&controller.name, self.below(16));
        let effect = self.one_of(&[
            "{ not-now = { status = \"command-interrupted\", crd = 1 } }",
            "{ delay = { ns = 3000000 } }",
            "{ delay = { ns = 11000000000 } }",
            "\"lose-interrupt\"",
            "\"drop-completion\"",
            "\"duplicate-completion\"",
            "\"wrong-cid\"",
            "\"stale-phase\"",
        ]);
        format!(
            "command = {{ controller = \"{name}\", queues = \"admin\", skip = {skip}, times = 1, effect = {effect} }}"
        )
    }

    fn controller_fault(&mut self, controller: &Controller, from_ns: u64, effect: &str) -> String {
        let (name, at_ns) = (&controller.name, from_ns + self.below(2 * UP_NS - from_ns));
        format!("controller = {{ controller = \"{name}\", at_ns = {at_ns}, effect = {effect} }}")
    }

    /// Draws an interrupt or an event that nobody waits for.
    fn notice(&mut self, controller: &Controller) -> String {
        let spurious = format!("{{ spurious-interrupt = {{ vector = {} }} }}", controller.vector);
        let effect = self.one_of(&[
            &spurious,
            &spurious,
            "{ event = \"spare\" }",
            "{ event = \"internal-error\" }",
            "{ event = \"namespace-changed\" }",
        ]);
        self.controller_fault(controller, 1_000_000, effect)
    }

    fn loss(&mut self, controller: &Controller, text: &mut String) -> String {
        if self.once_in(2) {
            let effect = self.one_of(&["\"removal\"", "{ all-ones = {} }"]);
            return self.controller_fault(controller, 1_000_000, effect);
        }
        let change = self.one_of(&["serial = \"other\", blank = true", "nguid = 1, blank = true", "queue_pairs = 1"]);
        put_later(controller, "", change, text);
        let effect = self.one_of(&["\"fatal-status\"", "\"power-loss\"", "{ all-ones = { for_ns = 30000000 } }"]);
        // Its server's first start is over by then.
        self.controller_fault(controller, UP_NS, effect)
    }

    /// Draws what the controller has less of after a reset, which its sessions keep to; or a quirk of it.
    fn lesser(&mut self, controller: &Controller, text: &mut String) {
        match self.below(4) {
            0 => put_later(controller, "", "max_transfer = 1", text),
            1 if controller.functions == 0 => {
                put_later(controller, "quirks = [\"nguid-changes-at-reset\"]\n", "nguid = 1", text);
            }
            _ => {}
        }
    }

    /// Draws a slow controller's server, tenant, or PCI server.
    fn slow(&mut self, controller: &Controller) -> String {
        let mut names = vec!["pci-server", &controller.server];
        names.extend(controller.loads.iter().chain(&controller.attacker).map(String::as_str));
        let (name, percent) = (self.one_of(&names), 100 + self.below(900));
        format!("component = {{ component = \"{name}\", effect = {{ slow = {{ percent = {percent} }} }} }}")
    }

    /// Draws a crash of one of the controller's tenants.
    fn crash(&mut self, controller: &Controller, expect: &mut Expect) -> String {
        let (name, at_await) = (self.one_of(&controller.loads), 1 + self.below(TURNS));
        let fault =
            format!("component = {{ component = \"{name}\", effect = {{ crash = {{ at_await = {at_await} }} }} }}");
        expect.faults.push(name);
        fault
    }
}
