//! Systems with clients that drive virtual functions themselves: frida and fritz, beside alice, who has a session.

use super::*;
use blk_api::config::ServerConfig;
use blk_api::policy::PolicyConfig;
use pci_api::Match;

fn functions() -> Image {
    Image::of("functions")
}

#[test]
fn clients_with_functions_pass() {
    assert_eq!(checked(&functions()), Ok(()));
}

#[test]
fn function_client_with_foreign_io_page_tables_is_refused() {
    for object in ["fritz.io-table", "nvme-server.io-table"] {
        let mut system = functions();
        plant(&mut system, "frida", object, 0, ALL);
        refused(&system, Rule::ClientsHoldNoDevice, &["client frida reaches", object, "cptr 200"]);
        refused(&system, Rule::NamedExactly, &["client frida holds", object, "not for it"]);
    }
    let mut system = functions();
    let (cnode, own, tables) =
        (id(&system, "frida.cnode"), id(&system, "frida.io-table"), id(&system, "fritz.io-table"));
    system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == own).unwrap().object = tables;
    refused(&system, Rule::ClientsHoldNoDevice, &["client frida reaches fritz.io-table"]);
    refused(&system, Rule::NamedExactly, &["client frida", "io-table", "fritz.io-table"]);
}

#[test]
fn function_client_with_foreign_frames_is_refused() {
    for object in ["fritz.window", "fritz.dma", "alice.window"] {
        let mut system = functions();
        plant(&mut system, "frida", object, 0, READ_WRITE);
        refused(&system, Rule::ClientsApart, &["client frida", object, "cptr 200"]);
        refused(&system, Rule::WindowsUnreadable, &["client frida holds", object, "is not the server"]);
    }
    for object in ["fritz.window", "fritz.dma"] {
        let mut system = functions();
        map(&mut system, "frida", object, false, false);
        refused(&system, Rule::ClientsApart, &["client frida", object, "0x70000000"]);
    }
    let mut system = functions();
    plant(&mut system, "frida", "nvme-server.dma", 0, READ_WRITE);
    refused(&system, Rule::OneWriter, &["nvme-server.dma", "client frida"]);
    refused(&system, Rule::PrivateMemory, &["client frida holds nvme-server.dma", "the server nvme-server maps"]);
}

#[test]
fn function_client_that_calls_the_nvme_server_is_refused() {
    let mut system = functions();
    plant(&mut system, "frida", "nvme-server.endpoint", 9, CALL);
    refused(
        &system,
        Rule::ClientsApart,
        &["client frida", "alice.window", "can send it in a reply along nvme-server.endpoint"],
    );
    refused(&system, Rule::NamedExactly, &["client frida holds nvme-server.endpoint", "not for it"]);
}

#[test]
fn function_client_with_an_untyped_or_a_device_is_refused() {
    let mut system = functions();
    new_object(&mut system, "memory", ObjectKind::Untyped { size_bits: 20 });
    plant(&mut system, "frida", "memory", 0, ALL);
    refused(&system, Rule::NoUntypedOut, &["client frida reaches the untyped memory"]);
    for object in ["irq-control", "io-space-master", "ecam", "frida.vspace", "frida.tcb", "fritz.cnode"] {
        let mut system = functions();
        plant(&mut system, "frida", object, 0, ALL);
        refused(&system, Rule::ClientsHoldNoDevice, &["client frida", object, "cptr 200"]);
    }
}

#[test]
fn nvme_server_with_frames_of_a_function_client_is_refused() {
    for object in ["frida.window", "frida.dma"] {
        for rights in [READ, READ_WRITE] {
            let mut system = functions();
            plant(&mut system, "nvme-server", object, 0, rights);
            refused(&system, Rule::WindowsUnreadable, &["nvme-server holds", object, "is not the server client frida"]);
        }
        let mut system = functions();
        map(&mut system, "nvme-server", object, false, false);
        refused(&system, Rule::PrivateMemory, &["the server nvme-server maps", object, "of client frida"]);
        let mut system = functions();
        map(&mut system, "nvme-server", object, true, false);
        refused(&system, Rule::OneWriter, &[object, "the server nvme-server", "client frida"]);
    }
}

#[test]
fn functions_in_one_iommu_domain_are_refused() {
    for (driver, other) in [(1, 2), (1, 0)] {
        let mut system = functions();
        configure(&mut system, "pci-server", |config: &mut pci_api::ServerConfig| {
            config.drivers[driver].domain = config.drivers[other].domain;
        });
        refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `domain` for frida"]);
    }
}

#[test]
fn other_virtual_functions_at_the_pci_server_are_refused() {
    let changes: [fn(&mut pci_api::ServerConfig); 4] = [
        |config| {
            let (frida, fritz) = (config.drivers[1].allowed.clone(), config.drivers[2].allowed.clone());
            (config.drivers[1].allowed, config.drivers[2].allowed) = (fritz, frida);
        },
        |config| config.drivers[1].allowed = Match::Virtual { driver: 0, index: 7 },
        |config| config.drivers[1].allowed = Match::Virtual { driver: 2, index: 0 },
        // The next physical function.
        |config| config.drivers[1].allowed = Match::ClassCode { class_code: [1, 8, 2], index: 1 },
    ];
    for change in changes {
        let mut system = functions();
        configure(&mut system, "pci-server", change);
        refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `allowed` for frida"]);
    }
    let mut system = functions();
    configure(&mut system, "pci-server", |config: &mut pci_api::ServerConfig| {
        config.drivers[0].allowed = Match::Virtual { driver: 0, index: 2 };
    });
    refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `allowed` for nvme-server"]);
}

#[test]
fn client_without_a_function_that_calls_the_pci_server_is_refused() {
    let mut system = functions();
    plant(&mut system, "alice", "pci-server.endpoint", 9, CALL);
    refused(&system, Rule::DevicesArePciServers, &["client alice calls the PCI server", "drives no device"]);
    // Nor does one whose server has no function for it.
    let mut system = functions();
    configure(&mut system, "nvme-server", |config: &mut ServerConfig| {
        config.functions.pop();
    });
    refused(&system, Rule::DevicesArePciServers, &["client fritz calls the PCI server", "drives no device"]);
}

#[test]
fn unwatched_function_clients_are_refused() {
    for (reader, title) in [("nvme-server", "the server nvme-server"), ("pci-server", "the PCI server")] {
        let mut system = functions();
        let (vspace, page) = (id(&system, &format!("{reader}.vspace")), id(&system, "frida.liveness"));
        system.mappings.retain(|mapping| mapping.vspace != vspace || mapping.object != page);
        refused(&system, Rule::NamedExactly, &[title, "frida.liveness"]);
    }
    let mut system = functions();
    let (vspace, frida, fritz) =
        (id(&system, "nvme-server.vspace"), id(&system, "frida.liveness"), id(&system, "fritz.liveness"));
    for mapping in system.mappings.iter_mut().filter(|mapping| mapping.vspace == vspace) {
        mapping.object = match mapping.object {
            object if object == frida => fritz,
            object if object == fritz => frida,
            object => object,
        };
    }
    refused(&system, Rule::NamedExactly, &["the server nvme-server", "liveness-function-0", "frida.liveness"]);
}

#[test]
fn function_clients_read_no_liveness_page() {
    for object in ["nvme-server.liveness", "fritz.liveness"] {
        let mut system = functions();
        map(&mut system, "frida", object, false, false);
        refused(&system, Rule::PrivateMemory, &["client frida maps", object, "not for it"]);
    }
}

#[test]
fn functions_exchanged_at_their_server_are_refused() {
    let mut system = functions();
    configure(&mut system, "nvme-server", |config: &mut ServerConfig| config.functions.swap(0, 1));
    refused(&system, Rule::NamedExactly, &["the server nvme-server", "liveness-function-0"]);
    refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server", "another `functions`"]);
}

#[test]
fn functions_exchanged_at_the_policy_component_are_refused() {
    let mut system = functions();
    configure(&mut system, "policy", |config: &mut PolicyConfig| config.functions.swap(0, 1));
    refused(&system, Rule::ConfiguredAsDeclared, &["the policy component policy", "another `functions`"]);
}

#[test]
fn client_with_a_session_and_a_function_or_with_two_is_refused() {
    let tenants: [fn(&mut ServerConfig); 3] = [
        |config| config.functions[0].tenant = "alice".into(),
        |config| config.functions[0].tenant = "fritz".into(),
        |config| config.functions[0].tenant = "nobody".into(),
    ];
    for (change, tenant) in tenants.into_iter().zip(["alice", "fritz", "nobody"]) {
        let mut system = functions();
        configure(&mut system, "nvme-server", change);
        refused(&system, Rule::NamedExactly, &["nvme-server has function", tenant, "no client of its alone"]);
    }
}

#[test]
fn shared_namespaces_are_refused() {
    for nsid in [1, 3] {
        let mut system = functions();
        configure(&mut system, "nvme-server", |config: &mut ServerConfig| config.functions[0].nsid = nsid);
        refused(
            &system,
            Rule::NamedExactly,
            &[&format!("nvme-server has namespace {nsid} for frida"), "and for another"],
        );
    }
}

#[test]
fn function_clients_other_teardown_words_are_refused() {
    let mut scenario = scenario_of("functions");
    scenario.tenants[1].restart = Some(crate::scenario::Restart { times: 2, within_seconds: 1 });
    let good = Image::new(&scenario, &samples());
    assert_eq!(checked(&good), Ok(()));
    for word in [0, 2] {
        let mut system = good.clone();
        component(&mut system, "frida").teardown_ack.as_mut().unwrap().session = word;
        refused(
            &system,
            Rule::PrivateMemory,
            &["client frida", &format!("waits for word {word}"), "nvme-server.teardown-acks", "has word 1"],
        );
    }
    let mut system = good.clone();
    component(&mut system, "frida").teardown_ack = None;
    refused(&system, Rule::PrivateMemory, &["client frida is started again", "nobody says"]);
    let mut system = good;
    map(&mut system, "frida", "nvme-server.teardown-acks", true, false);
    refused(&system, Rule::PrivateMemory, &["client frida maps nvme-server.teardown-acks", "is not its server"]);
}
