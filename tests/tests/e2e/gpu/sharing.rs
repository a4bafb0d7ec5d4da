//! Whose memory it is that a rank imported otherwise than by CUDA IPC.

use super::{
    BY_ADDRESS, BY_OBJECT, LIMIT, RECORDS, add_nvbit, ask, driver, installation, left, recorded, root,
    run_with, sums,
};
use mpisee_profile::Profile;
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, GpuRow, PeRow};
use mpisee_tests::{Mpi, case, within};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The fake NVSHMEM, beside the fake driver.
fn nvshmem() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = driver().parent().expect("a folder").join("libnvshmem_host.so.3");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-Wl,-soname,libnvshmem_host.so.3"]);
        compiler.arg("-o").arg(&library).arg(root().join("gpu-tracer/tests/fake/nvshmem.c"));
        assert!(within(LIMIT, &mut compiler).status.success());
        library
    })
}

/// Memory that was written to, in the order of the accesses: 32 of 8 bytes each for a number that
/// the owner's other memory has not.
const WRITTEN: [(&str, Option<u32>, u64); 10] = [
    ("late name", Some(0), 2),
    // One number and one size stand for two allocations.
    ("", Some(0), 3),
    // Of two imports, 4 and 5, which have one owner and one name.
    ("large", Some(0), 4 + 5),
    ("mine", Some(0), 1),
    ("by fabric", Some(0), 6),
    ("of a pool", Some(0), 7),
    ("call", None, 8),
    ("symmetric", Some(0), 9),
    ("symmetric", Some(1), 10),
    ("call", None, 1),
];

fn check(profile: &Profile) {
    let rows = profile.rows_if_any::<GpuRow>().expect("gpu.csv can be read");
    let rows: Vec<GpuRow> = rows.map(|row| row.expect("a row")).collect();
    assert!(rows.iter().all(|row| row.memory == GpuMemory::Imported && row.access == Access::Store));
    let find = |object: &str, owner: Option<u32>, warps: u64| {
        let is_call = |row: &GpuRow| row.object.contains("gpu/sharing+0x");
        let is_object = |row: &GpuRow| if object == "call" { is_call(row) } else { row.object == object };
        let is_one = |row: &&GpuRow| is_object(row) && row.peer_rank == owner && row.accesses == 32 * warps;
        let found: Vec<&GpuRow> = rows.iter().filter(is_one).collect();
        // Of three heaps 32 accesses are before NVSHMEM says whose they are.
        let times = if owner.is_none() && warps == 1 { 3 } else { 1 };
        assert_eq!(found.len(), times, "{object}: {rows:#?}");
        for row in found {
            // Who is known by the PE alone has a device that nobody says.
            let device = if owner == Some(0) && object != "symmetric" { "0000" } else { "" };
            assert!(row.peer_device.ends_with(device), "{row:#?}");
            assert_eq!(row.peer_device.is_empty(), device.is_empty(), "{row:#?}");
            assert_eq!(row.bytes, 8 * row.accesses);
        }
    };
    WRITTEN.iter().for_each(|&(object, owner, warps)| find(object, owner, warps));
    // Memory that a rank imports from itself is its own.
    assert_eq!(rows.len(), WRITTEN.len() + 2, "{rows:#?}");
    let pes = profile.rows_if_any::<PeRow>().expect("pes.csv can be read");
    let pes: Vec<PeRow> = pes.map(|row| row.expect("a row")).collect();
    let expected = [(0, 1), (1, 0), (2, 2)].map(|(rank, pe)| PeRow { rank, pe });
    assert_eq!(pes, expected);
    assert_eq!(profile.run().notes, Vec::<String>::new());
}

#[case]
fn imported_memory_has_its_owner_and_what_that_calls_it(mpi: &Mpi) {
    for backend in ["sanitizer", "nvbit"] {
        let prefix = installation();
        let prefix = prefix.path();
        add_nvbit(prefix);
        let options = [&["--gpu-backend", backend], &RECORDS[..]].concat();
        let library = nvshmem().display().to_string();
        let output = run_with(mpi, prefix, "gpu/sharing", "", &options, &[&library]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{backend}: {said}");
        assert_eq!((output.stdout, left(prefix)), (Vec::new(), 0));
        check(&Profile::open(prefix.join("test.mpisee")).expect("it was written"));

        let objects = ask(prefix, &BY_OBJECT);
        assert_eq!(sums(&ask(prefix, &BY_ADDRESS)), sums(&objects));
        let printed = ask(prefix, &["--by", "rank"]);
        assert!(printed.contains("PEs of NVSHMEM have other numbers than ranks: pes.csv."), "{printed}");
        let (_, rows) = recorded(prefix);
        for (peer, warps) in [("fabric ", 6), ("pool ", 7), ("pid ", 2 + 3 + 4 + 1 + 5), ("pe ", 9 + 10)] {
            let begin = format!(",imported,{peer}");
            assert_eq!(rows.iter().filter(|row| row.contains(&begin)).count(), warps, "{peer}");
        }
    }
}
