//! The time of several GPUs of a process in calls of NCCL.

use super::without_mpi::OF_LAUNCHERS;
use super::{library, linked};
use crate::buffers::driver;
use mpisee_profile::Profile;
use mpisee_profile::rows::NcclTimeRow;
use mpisee_tests::{LIMIT, case, dist, root, within};
use std::process::Command;

#[case]
fn a_gpu_that_ends_its_part_leaves_the_others_and_groups_with_unknown_calls_have_no_time() {
    let program = library().join("nccl_gpus");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-o"]).arg(&program);
    compiler.arg(root().join("tests/programs/gpu/nccl_gpus.c")).args(linked()).arg("-ldl");
    assert!(compiler.status().expect("cc starts").success());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--nccl-gpu-time", "--output", "test.mpisee", "--segments"]).arg(folder.path());
    command.arg(program).arg(driver()).current_dir(folder.path());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let output = within(LIMIT, &mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::open(folder.path().join("test.mpisee")).expect("it was written");
    let rows = profile.rows_if_any::<NcclTimeRow>().expect("it can be read").map(|row| row.expect("a row"));
    let mut found: Vec<_> = rows.map(|row| (row.size_min, row.calls, row.untimed)).collect();
    found.sort_unstable();
    assert_eq!(found, [(64, 1, 0), (256, 10, 0), (1024, 1, 0), (4096, 1, 1)]);
}
