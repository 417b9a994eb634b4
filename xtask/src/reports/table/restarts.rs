//! The table of restarts.

use super::parts::{Part, began_ns, milliseconds};
use crate::records::results::Results;
use crate::reports::sheet::{Sheet, Value};
use report::Reconnected;

/// Components that died and were restarted, each with the clients that opened their sessions again after that. Of components that
/// died together, the first is named.
pub(super) fn restarts(results: &Results) -> Option<Part> {
    let mut sheet =
        Sheet::new(["component", "died at ms", "again after ms", "tenant", "session after ms", "resubmitted"]);
    for (number, one) in results.restarts.iter().enumerate() {
        let clients = results.reconnected.iter().filter(|client| ended_by(results, client) == Some(number));
        let died = [
            Value::Word(one.name.to_string()),
            Value::Number(milliseconds(one.ended_at_ns.saturating_sub(began_ns(results)))),
            Value::Number(milliseconds(one.took_ns)),
        ];
        let mut of_clients = clients.map(|client| {
            [
                Value::Word(client.tenant.to_string()),
                Value::Number(milliseconds(client.at_ns.saturating_sub(one.ended_at_ns))),
                Value::Number(client.reissued.to_string()),
            ]
        });
        let nobody = || [(); 3].map(|()| Value::Word(String::new()));
        sheet.row(died.into_iter().chain(of_clients.next().unwrap_or_else(nobody)));
        for client in of_clients {
            sheet.row(nobody().into_iter().chain(client));
        }
    }
    (!sheet.is_empty()).then_some(Part::Table("Restarts", sheet))
}

/// The number of the restart before which the client lost its session: that of its server, or of who died together with it.
fn ended_by(results: &Results, client: &Reconnected) -> Option<usize> {
    let server = results.servers.get(client.tenant.as_str());
    let earlier = || results.restarts.iter().filter(|restart| restart.ended_at_ns <= client.at_ns);
    let own = earlier().filter(|restart| server.is_some_and(|server| restart.name == server.as_str()));
    let last = own.max_by_key(|restart| restart.ended_at_ns).or(earlier().max_by_key(|restart| restart.ended_at_ns))?;
    results.restarts.iter().position(|restart| restart.ended_at_ns == last.ended_at_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Restart, clip};

    #[test]
    fn a_session_comes_back_after_the_death_of_its_own_server() {
        let died = |name: &str, ended_at_ns| {
            let name = clip(name);
            Restart { name, times: 1, ended_at_ns, took_ns: 1, memory_left_bytes: 0 }
        };
        let again = |tenant: &str, at_ns| Reconnected { tenant: clip(tenant), at_ns, reissued: 0 };
        let served = |(tenant, server): (&str, &str)| (tenant.to_owned(), server.to_owned());
        let results = Results {
            restarts: vec![
                died("left", 10),
                died("right", 20),
                died("left", 30),
                died("pci-server", 40),
                died("left", 40),
            ],
            reconnected: vec![again("alice", 25), again("carol", 26), again("alice", 35), again("alice", 45)],
            servers: [("alice", "left"), ("carol", "right")].map(served).into(),
            ..Results::default()
        };
        let numbers: Vec<_> = results.reconnected.iter().map(|client| ended_by(&results, client)).collect();
        assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(3)]);
    }
}
