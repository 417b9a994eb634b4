//! Attempts of intruders, and the component that stopped each.

use super::parts::{ended_faults, what};
use crate::records::results::Results;
use report::Name;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Attempts of intruders, by the component that stopped them; first those that none stopped.
pub(super) fn attacks(results: &Results) -> Option<String> {
    let intruders: BTreeSet<&Name> = results.attacks.iter().map(|attack| &attack.tenant).collect();
    let mut text = String::new();
    for intruder in &intruders {
        let own = || results.attacks.iter().filter(|attack| attack.tenant == **intruder);
        let ends = ended_faults(results).filter(|fault| fault.name == **intruder);
        let mut groups: Vec<(&str, Vec<(String, u64)>)> = Vec::new();
        let unstopped = own().filter(|attack| !attack.refused).map(|attack| ("NOTHING", attack.attack.to_string()));
        let stopped =
            own().filter(|attack| attack.refused).map(|attack| (&*attack.stopped_by, attack.attack.to_string()));
        let ends = ends.map(|fault| ("the root task, which ended it for the fault", what(fault)));
        for (end, tried) in unstopped.chain(stopped).chain(ends) {
            count(group(&mut groups, end), tried);
        }
        let (tries, done) = (own().count(), own().filter(|attack| !attack.refused).count());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Intruder {intruder}: {tries} attempts, {done} succeeded. Tried, by what stopped it:");
        for (end, tried) in groups {
            let _ = writeln!(text, "  {end}");
            let tried = tried.into_iter().map(|(tried, times)| match times {
                1 => tried,
                times => format!("{tried} ({times} times)"),
            });
            let _ = writeln!(text, "    {}", tried.collect::<Vec<_>>().join("; "));
        }
    }
    (!intruders.is_empty()).then_some(text)
}

/// The group of attempts with the same end, created if it is missing.
fn group<'a, 'b>(groups: &'b mut Vec<(&'a str, Vec<(String, u64)>)>, end: &'a str) -> &'b mut Vec<(String, u64)> {
    let place = groups.iter().position(|(one, _)| *one == end).unwrap_or_else(|| {
        groups.push((end, Vec::new()));
        groups.len() - 1
    });
    &mut groups[place].1
}

/// Counts the attempt; equal attempts share an entry.
fn count(tried: &mut Vec<(String, u64)>, one: String) {
    match tried.iter_mut().find(|(known, _)| *known == one) {
        Some((_, times)) => *times += 1,
        None => tried.push((one, 1)),
    }
}
