//! Tables of changes while the system ran: of tenants' rights and shares, and of controllers' interrupt modes.

use super::parts::{Part, began_ns, micros, milliseconds};
use crate::records::results::Results;
use crate::reports::count::count;
use crate::reports::sheet::{Sheet, Value};
use report::Changed;

/// Changes of rights and shares, from and to.
pub(super) fn changes(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["tenant", "change", "at ms", "in force after µs"]);
    for (index, one) in results.changes.iter().enumerate() {
        let words = results.planned(index).map(|planned| planned.words.as_str());
        let what = match (one.what, words) {
            (Changed::Revoked { blocks }, None) => format!("revoked: {}", count(blocks, "block")),
            (Changed::Granted { blocks }, None) => format!("granted: {}", count(blocks, "block")),
            (Changed::Entitled, None) => "another share".to_owned(),
            (Changed::Revoked { .. }, Some(words)) => format!("revoked: {words}"),
            (Changed::Granted { .. }, Some(words)) => format!("granted: {words}"),
            (Changed::Entitled, Some(words)) => words.to_owned(),
        };
        sheet.row([
            Value::Word(one.tenant.to_string()),
            Value::Word(what),
            Value::Number(milliseconds(one.at_ns.saturating_sub(began_ns(results)))),
            Value::Number(micros(one.took_ns)),
        ]);
    }
    (!sheet.is_empty()).then_some(Part::Table("Changes", sheet))
}

/// Changes of controllers' interrupt modes.
pub(super) fn of_interrupts(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["ordered by", "interrupts", "at ms", "in force after µs"]);
    for one in &results.interrupts_changes {
        sheet.row([
            Value::Word(one.policy.to_string()),
            Value::Word(match results.plan.mode_before(&one.policy, one.number) {
                Some(from) => format!("{from} -> {}", one.to),
                None => one.to.to_string(),
            }),
            Value::Number(milliseconds(one.at_ns.saturating_sub(began_ns(results)))),
            Value::Number(micros(one.took_ns)),
        ]);
    }
    (!sheet.is_empty()).then_some(Part::Table("Changes of interrupts", sheet))
}
