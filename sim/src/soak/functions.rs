//! Tenants that drive virtual functions: loads, and beside some of them an attacker.
//!
//! Each is started again if it dies, because the PCI server's death ends it. Left out: functions that no tenant drives.

use super::{Controller, Draw, Expect};
use std::fmt::Write as _;

/// The first namespace of a function: that before it is the physical function's.
const FIRST_NAMESPACE: u64 = 2;
/// Last attacks after which the attacker's work is over.
const ENDS: [&str; 2] = ["close", "silence"];

/// Draws the tenants of all functions. The last function of a controller is an attacker's in one of three systems with more than
/// one.
pub(super) fn draw(draw: &mut Draw, controllers: &mut [Controller], expect: &mut Expect, text: &mut String) {
    for controller in controllers {
        let functions = controller.functions;
        let attacks = functions > 1 && controller.attacker.is_none() && draw.once_in(3);
        for number in 0..functions {
            let name = format!("{}-{number}", controller.name.replace("disk-", "f"));
            draw.function(&name, controller, number, text);
            if attacks && number + 1 == functions {
                draw.function_attack(text);
                expect.attackers.push(name.clone());
                controller.attacker = Some(name);
            } else {
                draw.load(text);
                controller.function_loads.push(name);
            }
        }
    }
}

impl Draw {
    fn function(&mut self, name: &str, controller: &Controller, number: u64, text: &mut String) {
        let class = self.one_of(&["urgent", "high", "medium", "low"]);
        let (depth, namespace) = (1 << self.below(6), FIRST_NAMESPACE + number);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[tenant]]\nname = \"{name}\"\ncontroller = \"{}\"\npath = \"function\"\nnamespace = {namespace}\n\
             class = \"{class}\"\nqueue_pairs = 1\ndepth = {depth}\nwindow = \"4M\"\n\
             restart = {{ times = 3, within_seconds = 60 }}\n\n",
            controller.name
        );
    }

    fn function_attack(&mut self, text: &mut String) {
        let (last, rounds) = (self.one_of(&ENDS), 1 + self.below(2));
        let _ = write!(
            text,
            "program.name = \"hostile\"\n[tenant.program.config]\nrounds = {rounds}\ndetaches = true\nlast = \"{last}\"\n\n"
        );
    }
}
