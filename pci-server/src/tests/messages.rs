//! MSI: address, data and masks of the capability, and the run of kernel interrupts behind them.

use super::bus::{Device, MSI_AT, at};
use super::machine::Object;
use super::system::{System, config, driver};
use pci_api::{INTERRUPTS_MSI, LIST, Match, RELEASE, Refusal, ServerConfig};
use pci_spec::Bdf;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// 64-bit address.
const LONG: u16 = 1 << 7;
/// Mask and pending bits.
const MASKABLE: u16 = 1 << 8;
/// Vectors: 2 to this power.
const fn capable(log2: u16) -> u16 {
    log2 << 1
}

fn here() -> Bdf {
    at(0, 1, 0)
}

fn device(control: u16) -> Device {
    Device::endpoint(0x02_00_00).bar32(0, 0xc000_0000, 0x1000).pin(1).msi(control)
}

/// A system of a driver that may have `max_vectors` of a function with this message control.
fn system(control: u16, max_vectors: u16, irqs: (u8, u8)) -> System {
    let mut only = driver("only", Match::Bdf(here().to_raw()), 1);
    only.max_vectors = max_vectors;
    System::with(vec![(here(), device(control))], ServerConfig { irqs, drivers: vec![only], ..config() })
}

fn irq(system: &mut System, index: u64) -> u8 {
    system.vector(1, index, 7).unwrap();
    match system.last_given() {
        Object::IrqHandler { irq, pin: None } => irq,
        other => panic!("{other:?}"),
    }
}

#[test]
fn claim_writes_one_message_for_all_vectors_and_masks_them() {
    let mut system = system(LONG | MASKABLE | capable(3), 4, (20, 8));
    assert_eq!(system.claim(1, here(), INTERRUPTS_MSI).unwrap().vectors, 4);
    let device = system.device(here());
    let dwords = [4, 8, 12, 16].map(|offset| device.read(MSI_AT + offset));
    assert_eq!(dwords, [0xfee0_0000, 0, 0x30 + 20, u32::MAX]);
    let control = pci_spec::msi::Control::from_bits((device.read(MSI_AT) >> 16) as u16);
    assert_eq!((control.enable(), control.enabled()), (true, 2));
    assert!(!device.interrupts_by_pin() && !device.interrupts_by_messages());
}

#[test]
fn a_short_address_moves_data_and_masks() {
    let mut system = system(MASKABLE | capable(1), 2, (20, 8));
    system.claim(1, here(), INTERRUPTS_MSI).unwrap();
    let dwords = [4, 8, 12].map(|offset| system.device(here()).read(MSI_AT + offset));
    assert_eq!(dwords, [0xfee0_0000, 0x30 + 20, u32::MAX]);
}

#[test]
fn a_bound_vector_is_unmasked_alone() {
    let mut system = system(LONG | MASKABLE | capable(3), 8, (24, 8));
    system.claim(1, here(), INTERRUPTS_MSI).unwrap();
    assert_eq!(irq(&mut system, 2), 24 + 2);
    assert_eq!(system.device(here()).read(MSI_AT + 16), !(1 << 2));
    assert_eq!(irq(&mut system, 2), 24 + 2, "bound again it is the same");
    assert_eq!(irq(&mut system, 0), 24);
    assert_eq!(system.device(here()).read(MSI_AT + 16), !0b101);
    assert_eq!(system.vector(1, 8, 7).unwrap_err(), Refusal::NoSuchVector);
}

#[test]
fn release_turns_messages_off_and_frees_all_interrupts() {
    let mut system = system(LONG | capable(5), 8, (24, 8));
    let before = system.passing_cptrs();
    for _ in 0..3 {
        assert_eq!(system.claim(1, here(), INTERRUPTS_MSI).unwrap().vectors, 8);
        assert_eq!(irq(&mut system, 5), 24 + 5);
        system.ask(1, RELEASE).unwrap();
        let device = system.device(here());
        assert!(!device.interrupts_by_msi() && !device.interrupts_by_pin() && !device.is_master());
        assert_eq!(system.passing_cptrs(), before);
    }
}

#[test]
fn function_without_usable_msi_keeps_its_pin() {
    // Reserved numbers of vectors.
    for control in [capable(6), capable(7), LONG | MASKABLE | capable(7)] {
        let mut system = system(control, 4, (20, 8));
        let listed: pci_api::Function = system.ask_index(1, LIST, 0).unwrap().payload().unwrap();
        assert_eq!(listed.msi_vectors, 0);
        assert_eq!(system.claim(1, here(), INTERRUPTS_MSI), Err(Refusal::Unusable));
        assert!(system.claim(1, here(), pci_api::INTERRUPTS_INTX).is_ok());
    }
    let plain = Device::endpoint(0x02_00_00).bar32(0, 0xc000_0000, 0x1000);
    let only = driver("only", Match::Bdf(here().to_raw()), 1);
    let mut system = System::with(vec![(here(), plain)], ServerConfig { drivers: vec![only], ..config() });
    assert_eq!(system.claim(1, here(), INTERRUPTS_MSI), Err(Refusal::Unusable));
}

#[test]
fn without_a_free_interrupt_messages_are_refused() {
    let mut system = system(LONG | capable(2), 4, (20, 0));
    assert_eq!(system.claim(1, here(), INTERRUPTS_MSI), Err(Refusal::Exhausted));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The vectors are a power of two, no more than the function has, the driver may have, and the kernel has free.
    /// Their messages are those that the function sends: the base's data with the vector in its low bits.
    #[test]
    fn vectors_have_the_kernel_interrupts_that_the_function_names(
        control in (0u16..=5).prop_map(capable), long in any::<bool>(), maskable in any::<bool>(),
        max_vectors in 1u16..=64, first in 8u8..=60, count in 1u8..=40,
    ) {
        let control = control | if long { LONG } else { 0 } | if maskable { MASKABLE } else { 0 };
        let mut system = system(control, max_vectors, (first, count));
        let vectors = system.claim(1, here(), INTERRUPTS_MSI).unwrap().vectors;
        prop_assert!(vectors.is_power_of_two());
        prop_assert!(vectors <= max_vectors && vectors <= 1 << (control >> 1 & 7) && vectors <= count.into());
        let data_at = if long { 12 } else { 8 };
        let base = system.device(here()).read(MSI_AT + data_at);
        let irqs: Vec<u8> = (0..vectors).map(|index| irq(&mut system, index.into())).collect();
        for (index, irq) in (0u32..).zip(irqs) {
            prop_assert!((first..first + count).contains(&irq));
            prop_assert_eq!(0x30 + u32::from(irq), base & !(u32::from(vectors) - 1) | index);
        }
    }
}
