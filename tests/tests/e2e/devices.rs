//! Which GPU each rank uses, by a driver that is pretended: its devices have the PCI addresses of
//! this machine's own.

use crate::buffers::driver;
use mpisee_profile::Profile;
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, NicRow, Row};
use mpisee_tests::{LIMIT, Mpi, Place, Run, Tables, case, within};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const FIRST: &str = "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f";
const SECOND: &str = "GPU-20212223-2425-2627-2829-2a2b2c2d2e2f";
const THIRD: &str = "GPU-30313233-3435-3637-3839-3a3b3c3d3e3f";
const PART: &str = "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf";

/// Three PCI addresses, of this machine as far as it has them.
fn addresses() -> [String; 3] {
    let entries = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let mut found: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    found.sort();
    let absent = (0..3).map(|number| format!("0000:f{number}:00.0"));
    let mut all = found.into_iter().chain(absent);
    std::array::from_fn(|_| all.next().expect("there are three"))
}

fn rows<R: Row>(directory: &Path) -> Vec<R> {
    let profile = Profile::open(directory).expect("it can be opened");
    profile.rows_if_any().expect("it can be read").map(|row| row.expect("a row")).collect()
}

fn run(mpi: &Mpi) -> Run<'_> {
    let program = mpi.compile_with("gpu/devices", &["-ldl"]);
    let run = Run::from_program(mpi, program).ranks(4).argument("end").argument(driver().display());
    run.variable("PRETENDED_PCI", &addresses().join(","))
}

fn used(tables: &Tables) -> Vec<&str> {
    tables.ranks.iter().map(|row| row.gpu.as_str()).collect()
}

/// A file of a device in `/sys`, empty if there is none.
fn of_device(address: &str, file: &str) -> String {
    let path = Path::new("/sys/bus/pci/devices").join(address).join(file);
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Asserts that the GPUs are those of the driver, and used by these ranks, with what `/sys` has of
/// them.
#[track_caller]
fn assert_devices(directory: &Path, ranks: [&str; 3]) {
    let devices: Vec<DeviceRow> = rows(directory);
    let expected = [(FIRST, 0, ""), (SECOND, 0, ""), (PART, 1, THIRD)];
    assert_eq!(devices.len(), expected.len(), "{devices:?}");
    for (number, (row, (uuid, mig, part_of))) in devices.iter().zip(expected).enumerate() {
        let address = &addresses()[number];
        assert_eq!((row.uuid.as_str(), row.part_of.as_str()), (uuid, part_of));
        assert_eq!((row.mig, &row.pci_address), (Some(mig), address));
        assert_eq!(row.memory_bytes, Some((1009 * (number as u64 + 1)) << 20));
        assert_eq!(row.model, if mig == 1 { "Pretended GPU MIG 1g" } else { "Pretended GPU" });
        assert_eq!(row.ranks.to_string(), ranks[number], "{uuid}");
        assert_eq!(row.numa_node, of_device(address, "numa_node").parse().ok());
        assert_eq!(row.cpus_near, of_device(address, "local_cpulist").parse().unwrap_or_default());
        let path = fs::canonicalize(Path::new("/sys/bus/pci/devices").join(address));
        let path = path.map_or(String::new(), |path| path.display().to_string());
        assert!(path.ends_with(&row.pci_path) && row.pci_path.is_empty() == path.is_empty(), "{row:?}");
    }
}

/// Asserts how the GPUs are linked: what the driver said of pairs that a rank saw and used one of,
/// and the way by PCIe.
fn assert_links(directory: &Path) {
    let links: Vec<DeviceLinkRow> = rows(directory);
    let nics: Vec<NicRow> = rows(directory);
    let named: BTreeSet<&str> = nics.iter().map(|nic| nic.nic.as_str()).collect();
    let of_gpus: Vec<_> = links
        .iter()
        .filter(|link| !named.contains(link.peer.as_str()))
        .map(|link| {
            let flags = (link.peer_access, link.native_atomics, link.performance, link.nvlinks);
            (link.device.as_str(), link.peer.as_str(), flags)
        })
        .collect();
    let apart = (Some(0), Some(0), Some(7), None);
    assert_eq!(
        of_gpus,
        [(FIRST, SECOND, (Some(1), Some(0), Some(2), None)), (FIRST, PART, apart), (SECOND, PART, apart)]
    );
    assert_eq!(links.len(), 3 + 3 * nics.len(), "each GPU has its way to each adapter");
    for nic in &nics {
        assert!(Path::new("/sys/class").join(&nic.class).join(&nic.nic).exists(), "{nic:?}");
        assert!(Path::new("/sys/bus/pci/devices").join(&nic.pci_address).exists(), "{nic:?}");
    }
}

#[case]
fn each_rank_has_the_gpus_that_it_used(mpi: &Mpi) {
    let finished = run(mpi).profiled();
    let tables = finished.tables();
    assert_eq!(used(tables), [FIRST, &[SECOND, PART].join("|"), "", ""], "{}", mpi.name);
    let knows_nodes = Path::new("/sys/devices/system/node/node0").exists();
    for row in &tables.ranks {
        assert_eq!(!row.numa_nodes.is_empty(), knows_nodes && row.rank < 3, "{row:?}");
    }
    assert_devices(&finished.directory(), ["0", "1", "1"]);
    assert_links(&finished.directory());
}

#[case]
fn devices_that_are_renumbered_are_known_by_their_uuids(mpi: &Mpi) {
    let finished = run(mpi).variable("PRETENDED_VISIBLE", "10").profiled();
    assert_eq!(used(finished.tables()), [SECOND, FIRST, "", ""], "{}", mpi.name);
    let devices: Vec<DeviceRow> = rows(&finished.directory());
    let names: Vec<&str> = devices.iter().map(|row| row.uuid.as_str()).collect();
    assert_eq!(names, [FIRST, SECOND]);
}

#[case]
fn sums_over_ranks_have_the_gpus_of_each_node(mpi: &Mpi) {
    let finished = run(mpi).variable("MPISEE_FOLD", "3").preloaded_to("test.mpisee");
    assert_devices(&finished.directory(), ["0", "1", "1"]);
    assert_links(&finished.directory());
}

#[case]
fn a_rank_that_is_killed_had_its_gpus(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, 4);
    command.arg(mpi.compile_with("gpu/devices", &["-ldl"])).arg("killed").arg(driver());
    command.env("PRETENDED_PCI", addresses().join(","));
    let output = within(LIMIT, &mut command);
    assert!(!output.status.success());
    place.wait_for_ranks(&[]);
    place.recover(&["--output", "killed.mpisee"]);
    let tables = place.tables("killed.mpisee");
    let row = tables.ranks.iter().find(|row| row.rank == 1).expect("it left its counts");
    // It had a current context, by which it was noticed.
    assert_eq!(row.gpu, [SECOND, PART].join("|"), "{}", mpi.name);
    let devices: Vec<DeviceRow> = rows(&place.path("killed.mpisee"));
    assert!(devices.iter().any(|row| row.uuid == PART && row.ranks.to_string() == "1"), "{devices:?}");
}

#[case]
fn a_program_without_a_gpu_has_no_table_of_them(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/grid_of_parts").ranks(4).profiled();
    for file in [DeviceRow::FILE, DeviceLinkRow::FILE, NicRow::FILE] {
        assert!(!finished.directory().join(file).exists(), "{}: {file}", mpi.name);
    }
    assert!(finished.tables().ranks.iter().all(|row| row.gpu.is_empty() && row.numa_nodes.is_empty()));
}
