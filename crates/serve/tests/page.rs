//! The live page in Chromium, with made-up answers of a server.

use std::path::Path;
use std::process::Command;

#[test]
fn a_browser_shows_made_up_jobs() {
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = browsers.iter().find(|path| Path::new(path).exists()) else {
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
        Command::new("node").args(["test/answers.mjs", browser]).current_dir(sources).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
