//! Call stacks of allocations: raw return addresses, told as file and offset, so that they can be resolved when the
//! program is gone.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::fmt::Write;

/// Frames that are kept.
const MOST_FRAMES: usize = 32;
/// Frames that are told.
const MOST_TOLD: usize = 8;
/// Files whose frames tell nothing of the program: this library, the runtime and the driver.
const NOT_THE_PROGRAM: [&str; 4] = ["libmpisee_gpu", "libcuda.so", "libcudart", "libsanitizer"];

/// Distinct call stacks, by number.
#[derive(Debug, Default)]
pub struct Stacks {
    numbers: HashMap<Vec<usize>, u32>,
    stacks: Vec<Vec<usize>>,
}

impl Stacks {
    /// The number of this call's stack.
    pub fn here(&mut self) -> u32 {
        let mut frames = [std::ptr::null_mut::<c_void>(); MOST_FRAMES];
        // SAFETY: there is room for as many.
        let found = unsafe { libc::backtrace(frames.as_mut_ptr(), MOST_FRAMES as i32) };
        let frames = frames.iter().take(usize::try_from(found).unwrap_or(0)).map(|frame| frame.addr());
        self.number(frames.collect())
    }

    fn number(&mut self, frames: Vec<usize>) -> u32 {
        if let Some(&number) = self.numbers.get(&frames) {
            return number;
        }
        let number = self.stacks.len() as u32;
        self.stacks.push(frames.clone());
        self.numbers.insert(frames, number);
        number
    }

    /// `app+0x1a2b < app+0x3c4d`: the program's return addresses, innermost first; offsets are those in the file.
    pub fn text(&self, number: u32) -> String {
        let frames = self.stacks.get(number as usize).map(Vec::as_slice).unwrap_or_default();
        let places: Vec<(String, usize)> = frames.iter().filter_map(|&address| place(address)).collect();
        let is_ours = |file: &str| NOT_THE_PROGRAM.iter().any(|it| name_of(file).starts_with(it));
        // What lies inside of the runtime is of no interest, but where the program called it.
        let first = places.iter().rposition(|(file, _)| is_ours(file)).map_or(0, |it| it + 1);
        let mut text = String::new();
        for (file, offset) in places[first.min(places.len())..].iter().take(MOST_TOLD) {
            let between = if text.is_empty() { "" } else { " < " };
            let _ = write!(text, "{between}{file}+{offset:#x}");
        }
        text
    }
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// The file that an address of code comes from, and how far it is from where that is loaded.
fn place(address: usize) -> Option<(String, usize)> {
    // SAFETY: zeros are a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let found = unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's names end in a zero and live as long as the file is loaded.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
    Some((file, address.wrapping_sub(info.dli_fbase.addr())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_number_and_its_text_has_the_file() {
        let mut stacks = Stacks::default();
        let numbers: Vec<u32> = (0..3).map(|_| stacks.here()).collect();
        let other = stacks.here();
        assert!(numbers.iter().all(|number| *number == numbers[0]) && other != numbers[0]);
        let text = stacks.text(other);
        let file = std::env::current_exe().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(&format!("{name}+0x")) && text.contains(" < "), "{text}");
        assert_eq!(stacks.text(99), "");
    }
}
