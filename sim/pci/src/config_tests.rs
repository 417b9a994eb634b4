use super::*;

const MEMORY: BarKind = BarKind::Memory32(Prefetch::NonPrefetchable);

fn with_bar(index: usize, kind: BarKind, bytes: u64) -> FunctionConfig {
    let mut config = FunctionConfig::new(1, 1, ClassCode::NVME);
    config.bars[index] = Some(BarConfig { kind, bytes });
    config
}

#[test]
fn an_nvme_function_is_laid_out_as_qemus() {
    let config = FunctionConfig::nvme(0x2000, 65);
    assert_eq!(config.check(), Ok(()));
    let msix = config.msix.unwrap();
    assert_eq!((msix.table, msix.pending), ((0, 0x2000), (0, 0x3000)));
    assert_eq!(config.bars[0].unwrap().bytes, 0x4000);
}

#[test]
fn impossible_bars_are_refused() {
    for bytes in [0, 8, 24, 1 << 32] {
        assert_eq!(with_bar(2, MEMORY, bytes).check(), Err(ConfigError::BarSize { index: 2 }), "{bytes}");
    }
    assert_eq!(with_bar(0, BarKind::Io, 512).check(), Err(ConfigError::BarSize { index: 0 }));
    let wide = BarKind::Memory64(Prefetch::Prefetchable);
    assert_eq!(with_bar(5, wide, 4096).check(), Err(ConfigError::NoUpperHalf { index: 5 }));
}

#[test]
fn a_table_outside_its_bar_or_over_the_pending_bits_is_refused() {
    for (table, pending) in [((0, 0xff8), (0, 0)), ((0, 0), (0, 8)), ((1, 0), (0, 0)), ((0, 4), (0, 0x800))] {
        let mut config = with_bar(0, MEMORY, 4096);
        config.msix = Some(MsixConfig { vectors: 2, table, pending });
        assert_eq!(config.check(), Err(ConfigError::TablePlace), "{table:?} {pending:?}");
    }
}

#[test]
fn virtual_functions_need_places_and_memory() {
    let good = FunctionConfig::nvme(0x2000, 4).with_virtual_nvme(2, 0x2000, 4);
    assert_eq!(good.check(), Ok(()));
    let mut none = good.clone();
    none.sriov.as_mut().unwrap().total = 0;
    let mut on_itself = good.clone();
    on_itself.sriov.as_mut().unwrap().first_offset = 0;
    let mut ports = good;
    ports.sriov.as_mut().unwrap().bars[5] = Some(BarConfig { kind: BarKind::Io, bytes: 8 });
    for config in [none, on_itself, ports] {
        assert_eq!(config.check(), Err(ConfigError::VirtualFunctions));
    }
}
