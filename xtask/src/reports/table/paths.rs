//! Tenants by their paths, side by side: through the NVMe server, and by virtual functions of their own.

use super::parts::{Part, bdf, micros};
use super::tenants::whole_iops;
use crate::records::results::Results;
use crate::reports::sheet::{Sheet, Value};
use capdl_spec::Role;
use report::{Load, Name};
use std::collections::BTreeSet;

/// A table of all tenants, if one of them drives a function.
pub(super) fn paths(results: &Results) -> Option<Part> {
    let is_client = |name: &&Name| results.roles.get(*name) == Some(&Role::Client);
    let clients: BTreeSet<&Name> = results.components.iter().map(|one| &one.name).filter(is_client).collect();
    clients.iter().any(|name| function_of(results, name).is_some()).then_some(())?;
    let mut sheet =
        Sheet::new(["tenant", "path", "memory kept apart by", "blocks kept apart by", "IOPS", "p50 µs", "p99 µs"]);
    for name in clients {
        let (path, memory, blocks) = match function_of(results, name) {
            Some(function) => {
                (format!("function {}", bdf(function)), "the IOMMU, its function's own space", "the controller")
            }
            None => ("NVMe server".into(), "the server's checks, in one space for all", "the server's checks"),
        };
        let load = results.tenants.iter().rfind(|load| load.tenant == *name);
        let number = |of: &dyn Fn(&Load) -> String| Value::Number(load.map_or_else(String::new, of));
        sheet.row([
            Value::Word(name.to_string()),
            Value::Word(path),
            Value::Word(memory.into()),
            Value::Word(blocks.into()),
            number(&|load| whole_iops(load)),
            number(&|load| micros(load.p50_ns)),
            number(&|load| micros(load.p99_ns)),
        ]);
    }
    Some(Part::Table("Paths", sheet))
}

/// The requester id of the function that a component drove last.
fn function_of(results: &Results, name: &Name) -> Option<u16> {
    results.drivers.iter().find(|(_, driver)| *driver == name).map(|(function, _)| *function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Component, clip};

    fn results(drivers: &[(u16, &str)]) -> Results {
        let names = ["alice", "frida", "nvme-server"];
        let component = |name| Component { component: 1, name: clip(name), priority: 1, capabilities: 1, pages: 1 };
        let role = |name| if name == "nvme-server" { Role::NvmeServer } else { Role::Client };
        Results {
            components: names.map(component).to_vec(),
            roles: names.map(|name| (clip(name), role(name))).into_iter().collect(),
            drivers: drivers.iter().map(|(function, name)| (*function, clip(name))).collect(),
            tenants: vec![Load {
                tenant: clip("frida"),
                reads: 500,
                elapsed_ns: 1_000_000_000,
                p50_ns: 7000,
                ..Load::default()
            }],
            ..Results::default()
        }
    }

    #[test]
    fn both_paths_stand_side_by_side() {
        let text = paths(&results(&[(0x100, "nvme-server"), (0x102, "frida")])).unwrap().render(200, 200);
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("alice").contains("NVMe server"), "{text}");
        let frida = line("frida");
        assert!(["function 01:00.2", "the IOMMU", "500", "7"].iter().all(|word| frida.contains(word)), "{text}");
    }

    #[test]
    fn without_a_function_there_is_one_path_and_no_table() {
        assert!(paths(&results(&[(0x100, "nvme-server")])).is_none());
    }
}
