//! Reports, made when somebody asks for them, and kept as long as the profiles do not change.

use anyhow::{Result, bail};
use hyper::body::Bytes;
use mpisee_through::library::html;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes of pages that are kept.
const MOST_BYTES: usize = 128 << 20;
/// Pages that are made at one time; each may hold the tables of a profile.
const MOST_AT_ONCE: usize = 2;

/// Pages that were made.
#[derive(Default)]
pub struct Pages {
    kept: Mutex<Vec<Page>>,
    at_work: Mutex<usize>,
}

struct Page {
    of: Vec<PathBuf>,
    /// When a file of each of the profiles last changed.
    changed: Vec<SystemTime>,
    page: Bytes,
}

/// Counts a page that is being made.
struct Work<'a>(&'a Mutex<usize>);

impl<'a> Work<'a> {
    fn begin(at_work: &'a Mutex<usize>) -> Result<Work<'a>> {
        let mut count = at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if *count >= MOST_AT_ONCE {
            bail!("{MOST_AT_ONCE} reports are being made; try again in a moment");
        }
        *count += 1;
        Ok(Work(at_work))
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

impl Pages {
    /// The report on profiles.
    pub fn report(&self, of: &[PathBuf]) -> Result<Bytes> {
        let changed: Vec<SystemTime> = of.iter().map(|profile| last_change(profile)).collect();
        if let Some(page) = self.kept(of, &changed) {
            return Ok(page);
        }
        let page = {
            let _work = Work::begin(&self.at_work)?;
            Bytes::from(html(of)?)
        };
        self.keep(Page { of: of.to_vec(), changed, page: page.clone() });
        Ok(page)
    }

    fn kept(&self, of: &[PathBuf], changed: &[SystemTime]) -> Option<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|page| page.of == of)?;
        let page = kept.remove(at);
        if page.changed != changed {
            return None;
        }
        // The one that was asked for last is the last.
        let bytes = page.page.clone();
        kept.push(page);
        Some(bytes)
    }

    fn keep(&self, page: Page) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(page);
        let mut bytes: usize = kept.iter().map(|page| page.page.len()).sum();
        while bytes > MOST_BYTES {
            bytes -= kept.remove(0).page.len();
        }
    }
}

/// When a file of the profile last changed.
fn last_change(profile: &Path) -> SystemTime {
    let files = std::fs::read_dir(profile).into_iter().flatten().flatten();
    let changes = files.filter_map(|file| file.metadata().ok()?.modified().ok());
    changes.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
