//! The live page in Chromium, with made-up answers of a server.

use std::path::Path;
use std::process::Command;

#[test]
fn a_browser_shows_made_up_jobs() {
    let browsers = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let mut browsers = browsers.map(|name| Path::new("/usr/bin").join(name)).into_iter();
    let Some(browser) = browsers.find(|path| path.exists()) else {
        eprintln!("SKIPPED, the live page was not opened in a browser: there is no Chromium.");
        return;
    };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../report");
    if !sources.join("node_modules/playwright-core").exists() {
        eprintln!(
            "SKIPPED, the live page was not opened in a browser: npm --prefix report ci installs what it needs."
        );
        return;
    }
    let output =
        Command::new("node").arg("test/answers.mjs").arg(browser).current_dir(sources).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
