//! The Python package, `python/`: its own tests, with the profile of a real run and with the tools
//! that read what `mpisee-through export` writes.

use mpisee_tests::python::{Stack, with_readers};
use mpisee_tests::{Mpi, Run, case, dist, root, within};
use std::process::Command;
use std::time::Duration;

/// Several times what they take on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

#[case]
fn other_tools_read_a_profile() {
    if !Stack::are_there() {
        mpisee_tests::harness::leave_out(
            "Python with venv and pip is not installed, or its package index cannot be used",
        );
        return;
    }
    // What is read does not depend on the MPI.
    let mpi = Mpi::all().remove(0);
    let finished = Run::from_program(&mpi, mpi.compile_example("stencil2d")).profiled();
    let environment = with_readers();
    let python = environment.join("bin/python");
    let run = |what: &str, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(root().join("python"));
        // The packages come without compiled modules. Python keeps those that it imports, apart
        // from the sources.
        command.env_remove("PYTHONDONTWRITEBYTECODE").env("PYTHONPYCACHEPREFIX", environment.join("pycache"));
        command.env("MPISEE_THROUGH", dist().join("bin/mpisee-through"));
        command.env("MPISEE_PROFILE", finished.directory());
        let output = within(LONGEST, &mut command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{what}\n{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    let said = run("the tests of the package", &["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
    assert!(
        said.contains(" passed") && !said.contains("skipped"),
        "every package that they need is there\n{said}"
    );
    run("the types of the package", &["-m", "mypy", "--cache-dir", "/dev/null"]);
}
