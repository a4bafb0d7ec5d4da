//! The device's part, compiled by the host's compiler, against a plain reference.

mod support;

use mpisee_gpu::device::layout::{Counter, Launch, Range, Table, What, Window, threshold};
use mpisee_gpu::memory::registry::{Registry, Where};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use support::Core;

static CORE: LazyLock<Core> = LazyLock::new(Core::load);

/// Memory of the device, in this process.
struct Device {
    launch: Launch,
    /// The table's begin, and its counters.
    table: Vec<u64>,
    /// Kept while the launch points there.
    _ranges: Vec<Range>,
}

impl Device {
    fn new(ranges: Vec<Range>, slots: usize, n: u32) -> Self {
        let mut table = vec![0u64; Table::bytes(slots) / 8];
        table[0] = slots as u64;
        let launch = Launch {
            table: table.as_mut_ptr() as u64,
            ranges: ranges.as_ptr() as u64,
            range_count: ranges.len() as u32,
            kernel: 3,
            windows: Window::around(&ranges),
            threshold: threshold(n),
            ..Launch::default()
        };
        Device { launch, table, _ranges: ranges }
    }

    fn counters(&self) -> Vec<Counter> {
        let words = self.table[size_of::<Table>() / 8..].chunks_exact(4);
        let counters = words.map(|it| Counter { pc: it[0], what: it[1], accesses: it[2], extra: it[3] });
        counters.filter(|it| it.accesses > 0).collect()
    }

    fn lost(&self) -> u64 {
        self.table[1]
    }
}

/// Counters by (pc, range, kind, width).
type Counts = BTreeMap<(u64, u32, u32, u32), (u64, u64)>;

fn counts(device: &Device) -> Counts {
    let mut counts = Counts::new();
    for it in device.counters() {
        let what = What::from(it.what);
        assert_eq!((what.kernel, it.pc & 1), (3, 1));
        let before = counts.insert((it.pc & !1, what.range, what.kind, what.width), (it.accesses, it.extra));
        assert_eq!(before, None, "one key in two counters");
    }
    counts
}

#[derive(Clone, Debug)]
enum Event {
    Allocate { begin: u64, bytes: u64, place: u8 },
    Free { base: u64 },
    Warp { pc: u64, addresses: Vec<u64>, active: u32, width: u32, kind: u32 },
    Bulk { pc: u64, address: u64, blocks: u64, kind: u32 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let address = || 0..600u64;
    let pc = || (1..6u64).prop_map(|it| it * 16);
    let allocate = (address(), 1..90u64, 0..3u8).prop_map(|(begin, bytes, place)| Event::Allocate {
        begin,
        bytes,
        place,
    });
    let warp = (pc(), proptest::collection::vec(address(), 32), any::<u32>(), 0..5u32, 0..3u32).prop_map(
        |(pc, addresses, active, width, kind)| Event::Warp { pc, addresses, active, width: 1 << width, kind },
    );
    let bulk = (pc(), address(), 1..300u64, 0..3u32).prop_map(|(pc, address, blocks, kind)| Event::Bulk {
        pc,
        address,
        blocks,
        kind,
    });
    let free = address().prop_map(|base| Event::Free { base });
    proptest::collection::vec(prop_oneof![3 => allocate, 1 => free, 5 => warp, 1 => bulk], 1..80)
}

fn place(number: u8) -> Where {
    match number {
        0 => Where::Device(0),
        1 => Where::Device(1),
        _ => Where::Ipc("ab".to_owned()),
    }
}

proptest! {
    /// Memory is allocated, split by others, freed and used again between the warps of one device.
    #[test]
    fn counts_are_those_of_a_plain_reference(events in events()) {
        let mut registry = Registry::default();
        let mut expected = Counts::new();
        let mut device = Device::new(Vec::new(), 4096, 1);
        for event in &events {
            match event {
                Event::Allocate { begin, bytes, place: number } => {
                    registry.insert(*begin, *bytes, place(*number), 0);
                }
                Event::Free { base } => registry.remove(*base),
                Event::Warp { pc, addresses, active, width, kind } => {
                    for (lane, address) in addresses.iter().enumerate() {
                        let hit = registry.at(*address).filter(|(_, it)| it.place != Where::Device(0));
                        if let Some((id, _)) = hit.filter(|_| active >> lane & 1 == 1) {
                            expected.entry((*pc, id, *kind, *width)).or_default().0 += 1;
                        }
                    }
                    let launch = with_table(&mut device, &registry);
                    CORE.access(&launch, *pc, addresses, *active, *width, *kind, 0);
                }
                Event::Bulk { pc, address, blocks, kind } => {
                    let hit = registry.at(*address).filter(|(_, it)| it.place != Where::Device(0));
                    if let Some((id, _)) = hit {
                        let sum = expected.entry((*pc, id, *kind, 0)).or_default();
                        *sum = (sum.0 + 1, sum.1 + 16 * blocks);
                    }
                    let launch = with_table(&mut device, &registry);
                    CORE.bulk(&launch, *pc, *address, 16 * blocks, *kind);
                }
            }
        }
        prop_assert_eq!(counts(&device), expected);
        prop_assert_eq!(device.lost(), 0);
    }

    #[test]
    fn a_table_that_is_too_small_loses_nothing_unnoticed(
        slots in 0..5u32, warps in proptest::collection::vec((1..40u64, 0..40u64), 1..200)
    ) {
        let ranges = (0..40).map(|it| Range { begin: it * 100, end: it * 100 + 100, id: it + 1 }).collect();
        let device = Device::new(ranges, 1 << slots, 1);
        for (pc, range) in &warps {
            CORE.access(&device.launch, pc * 16, &[range * 100 + 5; 32], 0xff, 4, 0, 0);
        }
        let counted: u64 = device.counters().iter().map(|it| it.accesses).sum();
        prop_assert_eq!(counted + device.lost(), 8 * warps.len() as u64);
    }
}

/// The launch as it is with the registry's present table.
fn with_table(device: &mut Device, registry: &Registry) -> Launch {
    device._ranges = registry.table(0);
    let ranges = &device._ranges;
    device.launch.ranges = ranges.as_ptr() as u64;
    device.launch.range_count = ranges.len() as u32;
    device.launch.windows = Window::around(ranges);
    device.launch
}

#[test]
fn windows_hold_all_ranges_and_leave_out_the_largest_gap() {
    const MIB: u64 = 1 << 20;
    let range = |begin, end| Range { begin, end, id: 1 };
    let window = |first, count| Window { first, count };
    assert_eq!(Window::around(&[]), [Window::default(); 2]);
    assert_eq!(Window::around(&[range(3 * MIB + 5, 4 * MIB)]), [window(3, 1), window(0, 0)]);
    let ranges = [
        range(MIB, MIB + 1),
        range(3 * MIB, 4 * MIB + 1),
        range(90 * MIB, 91 * MIB),
        range(1 << 52, 1 + (1 << 52)),
    ];
    assert_eq!(Window::around(&ranges), [window(1, 90), window(0, 1)]);
    assert_eq!(Window::around(&[range(0, 1 << 60)]), [window(0, u32::MAX), window(0, 0)]);
    // As the device looks at them: what is in a range, and what is not, at the ends of windows and
    // far away.
    let device = Device::new(ranges.to_vec(), 64, 1);
    let hits = [MIB, 3 * MIB, 4 * MIB, 91 * MIB - 1, 1 << 52];
    let misses =
        [0, MIB - 1, MIB + 1, 2 * MIB, 4 * MIB + 1, 60 * MIB, 91 * MIB, 2 + (1 << 52), 1 << 53, u64::MAX];
    for address in hits.into_iter().chain(misses) {
        CORE.access(&device.launch, address << 4, &[address; 32], 1, 4, 0, 0);
    }
    let mut counted: Vec<u64> = counts(&device).keys().map(|&(pc, ..)| pc >> 4).collect();
    counted.sort_unstable();
    assert_eq!(counted, hits.map(|it| it << 4 >> 4));
}

#[test]
fn widths_that_are_no_power_of_two_are_copies() {
    for (bytes, code) in
        [(1, 0), (2, 1), (4, 2), (8, 3), (16, 4), (32, 5), (64, 6), (12, 7), (128, 7), (0, 7)]
    {
        assert_eq!(CORE.width(bytes), code, "{bytes}");
    }
}

#[test]
fn without_a_launch_or_ranges_nothing_happens() {
    CORE.access(&Launch::default(), 16, &[0; 32], u32::MAX, 4, 0, 0);
    let device = Device::new(Vec::new(), 4, 1);
    CORE.access(&device.launch, 16, &[0; 32], u32::MAX, 4, 0, 0);
    CORE.bulk(&device.launch, 16, 0, 16, 0);
    assert!(device.counters().is_empty());
}

/// Many threads on one table: each key has one counter, and no access is missing.
#[test]
fn threads_that_count_at_once_agree_on_the_counters() {
    let ranges = (0..64).map(|it| Range { begin: it * 100, end: it * 100 + 100, id: it + 1 }).collect();
    let device = Device::new(ranges, 512, 1);
    let launch = device.launch;
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for step in 0..20_000u64 {
                    let key = (step * 7 + thread * 13) % 256;
                    CORE.access(&launch, key / 64 * 16 + 16, &[key % 64 * 100; 32], 0xf, 8, 1, 0);
                }
            });
        }
    });
    let counts = counts(&device);
    assert_eq!(counts.len(), 256);
    assert_eq!(counts.values().map(|it| it.0).sum::<u64>() + device.lost(), 4 * 20_000 * 4);
    assert_eq!(device.lost(), 0);
}

/// With the standard error that is stated, nearly all of many estimates lie within three of them,
/// and their mean is within three of its own of the number that is estimated.
#[test]
fn sampling_has_no_bias_and_keeps_within_its_error() {
    const WARPS: u64 = 10_000;
    const TRIALS: u64 = 100;
    for n in [2u32, 10, 100] {
        let mut inside = 0;
        let (mut sum, mut variance) = (0.0, 0.0);
        let mut exact = 0u64;
        for trial in 0..TRIALS {
            let device = Device::new(vec![Range { begin: 0, end: 1000, id: 1 }], 16, n);
            exact = 0;
            for warp in 0..WARPS {
                // Warps with few and with many lanes.
                let active = if warp % 3 == 0 { u32::MAX } else { 0b11 };
                exact += u64::from(active.count_ones());
                let seed = (trial << 32) + warp * 977;
                CORE.access(&device.launch, 16, &[8; 32], active, 4, 0, seed);
            }
            let counter = device.counters()[0];
            let estimate = (counter.accesses * u64::from(n)) as f64;
            let error = (counter.extra as f64 * f64::from(n) * f64::from(n - 1)).sqrt();
            inside += u32::from((estimate - exact as f64).abs() <= 3.0 * error);
            sum += estimate;
            variance += error * error;
        }
        assert!(inside >= 95, "1 in {n}: {inside} of {TRIALS} within three standard errors");
        let (mean, error) = (sum / TRIALS as f64, variance.sqrt() / TRIALS as f64);
        assert!(
            (mean - exact as f64).abs() < 3.0 * error,
            "1 in {n}: mean {mean}, exact {exact}, error {error}"
        );
    }
}
