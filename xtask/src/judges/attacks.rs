//! Compares the reported attacks with the table of attacks (`workload::attacks`).
//!
//! Each kind must have been tried that the attacker's position and end have, and each attempt stopped by a barrier of its kind. Left
//! out: attacks that succeeded (`verdict`).

use crate::records::results::Results;
use capdl::Scenario;
use capdl::scenario::{PROBE, Path, Workload};
use workload::LastAttack;
use workload::attacks::{Attacker, KINDS, Kind, Occasion, find};

/// Violations, one sentence each.
pub(crate) fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    let tenants = scenario.tenants.iter().filter_map(|tenant| {
        let Workload::Hostile(hostile) = &tenant.workload else { return None };
        let attacker = if tenant.path == Path::Function { Attacker::Function } else { Attacker::Session };
        Some((tenant.name.as_str(), attacker, Some(hostile.last)))
    });
    let probe = scenario.probe.iter().map(|_| (PROBE, Attacker::Probe, None));
    tenants.chain(probe).flat_map(|(name, attacker, last)| of_one(name, attacker, last, results)).collect()
}

fn of_one(name: &str, attacker: Attacker, last: Option<LastAttack>, results: &Results) -> Vec<String> {
    let own: Vec<_> = results.attacks.iter().filter(|attack| attack.tenant == name).collect();
    let mut violations = Vec::new();
    for attack in own.iter().filter(|attack| attack.refused) {
        let barriers = find(attacker, &attack.kind).map_or(&[][..], |kind| kind.barriers);
        if !barriers.iter().any(|barrier| attack.stopped_by.starts_with(barrier)) {
            let (kind, what, by) = (&attack.kind, &attack.attack, &attack.stopped_by);
            violations.push(format!(
                "{name}: {what}: stopped by \"{by}\", which the table of attacks does not have for {kind}"
            ));
        }
    }
    let must = |kind: &&Kind| match kind.occasion {
        Occasion::Round => !last.is_some_and(LastAttack::is_alone),
        Occasion::Last(end) => last == Some(end),
        Occasion::Some => false,
    };
    // Another judge reports an attacker that did not pass.
    if results.done.iter().any(|(tenant, passed)| tenant == name && *passed) {
        let of_its = KINDS.iter().filter(|kind| kind.attacker == attacker).filter(must);
        let missing = of_its.filter(|kind| !own.iter().any(|attack| attack.kind == kind.name));
        violations.extend(missing.map(|kind| format!("{name} reported no attack of the kind {}", kind.name)));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Attack, Report, clip};
    use std::time::Duration;

    fn sentences(last: LastAttack, attacks: &[(&str, &str)]) -> Vec<String> {
        let mut results = Results::default();
        for (kind, stopped_by) in attacks {
            let (kind, stopped_by) = (clip(kind), clip(stopped_by));
            let attack = Attack { tenant: clip("m"), kind, attack: clip("reads"), refused: true, stopped_by };
            results.add(Report::Attack(attack), Duration::ZERO);
        }
        results.add(Report::Done { tenant: clip("m"), passed: true }, Duration::ZERO);
        of_one("m", Attacker::Session, Some(last), &results)
    }

    #[test]
    fn a_kind_that_was_not_tried_is_missed_unless_the_end_comes_alone() {
        let tried =
            [("requests", "the server's check: outside of its extents"), ("addresses", "the seam in its own program")];
        let missed = sentences(LastAttack::Panic, &tried);
        let kinds = ["published entries", "capabilities", "quantity"];
        assert_eq!(missed, kinds.map(|kind| format!("m reported no attack of the kind {kind}")));
        let alone = sentences(LastAttack::ForbiddenInstructions, &[]);
        assert_eq!(alone, ["m reported no attack of the kind the processor"]);
    }

    #[test]
    fn another_barrier_than_the_tables_and_an_unknown_kind_fail() {
        let seen =
            |kind| sentences(LastAttack::ForbiddenInstructions, &[("the processor", "the kernel"), (kind, "luck")]);
        let sentence =
            |kind| format!("m: reads: stopped by \"luck\", which the table of attacks does not have for {kind}");
        assert_eq!(seen("requests"), [sentence("requests")]);
        assert_eq!(seen("letters"), [sentence("letters")]);
    }

    #[test]
    fn names_of_kinds_fit_into_reports_and_are_an_attackers_once() {
        for kind in KINDS {
            assert_eq!(clip::<32>(kind.name), kind.name);
            assert_eq!(KINDS.iter().filter(|one| (one.attacker, one.name) == (kind.attacker, kind.name)).count(), 1);
        }
    }
}
