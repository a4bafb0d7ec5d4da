//! Chromium looks at the page of a running program.

use super::{Growing, Server};
use mpisee_tests::{LIMIT, Mpi, Place, case, root, within};
use std::path::Path;
use std::process::Command;

#[case]
fn a_browser_shows_a_running_program() {
    let browsers = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let mut browsers = browsers.map(|name| Path::new("/usr/bin").join(name)).into_iter();
    let Some(browser) = browsers.find(|path| path.exists()) else {
        mpisee_tests::harness::leave_out("the live page was not opened in a browser: there is no Chromium.");
        return;
    };
    let sources = root().join("report");
    if !sources.join("node_modules/playwright-core").exists() {
        mpisee_tests::harness::leave_out(
            "the live page was not opened in a browser: npm --prefix report ci installs what it needs.",
        );
        return;
    }
    let mpi = &Mpi::all()[0];
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut earlier = Growing::start(mpi, place, 2);
    server.job_that("the first one runs", |job| job["brief"]["calls_per_s"].as_f64() > Some(0.0));
    earlier.stand_still();
    earlier.end();
    server.history(1);
    for file in ["enough", "go", "arrived.0", "arrived.1"] {
        std::fs::remove_file(earlier.place.path(file)).expect("it is there");
    }
    let mut growing = Growing::start(mpi, earlier.place, 4);
    server.job_that("it runs", |job| job["brief"]["calls_per_s"].as_f64() > Some(0.0));
    let mut look = Command::new("node");
    look.arg("test/live.mjs").arg(browser).arg(server.url()).current_dir(sources);
    let output = within(LIMIT, &mut look);
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    growing.stand_still();
    growing.end();
}
