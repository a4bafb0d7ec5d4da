//! Call stacks of allocations: raw return addresses, written as file and offset, so that they can
//! be resolved when the program is gone.

mod loaded;

use loaded::CodeLocation;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write;

/// Frames that are kept.
const MOST_FRAMES: usize = 32;
/// Frames that are written.
const MOST_TOLD: usize = 8;
/// Files whose frames are not the program's: this library, the runtime and the driver.
const NOT_THE_PROGRAM: [&str; 4] = ["libmpisee_gpu", "libcuda.so", "libcudart", "libsanitizer"];

/// Distinct call stacks, by number.
#[derive(Debug, Default)]
pub struct Stacks {
    numbers: HashMap<Vec<usize>, u32>,
    stacks: Vec<Vec<usize>>,
}

/// Takes a first call stack, as the tracer starts: the C library loads the unwinder for that, which
/// takes the loader's lock.
pub fn prepare() {
    Stacks::default().here();
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

    /// `app+0x1a2b < app+0x3c4d`: the program's return addresses, innermost first; offsets are
    /// those in the file.
    pub fn text(&self, number: u32) -> String {
        let mut text = String::new();
        for CodeLocation { file, address, .. } in self.places(number) {
            let between = if text.is_empty() { "" } else { " < " };
            let _ = write!(text, "{between}{file}+{address:#x}");
        }
        text
    }

    /// Returns whether a call passed a file whose name begins so.
    pub fn passes(&self, number: u32, file: &str) -> bool {
        let frames = self.stacks.get(number as usize).map(Vec::as_slice).unwrap_or_default();
        let mut places = frames.iter().filter_map(|&address| loaded::place(address));
        places.any(|place| name_of(&place.file).starts_with(file))
    }

    /// The files of the addresses that are written, with their build IDs.
    pub fn binaries(&self, number: u32) -> Vec<(String, String)> {
        self.places(number).into_iter().map(|place| (place.file, place.build_id)).collect()
    }

    fn places(&self, number: u32) -> Vec<CodeLocation> {
        let frames = self.stacks.get(number as usize).map(Vec::as_slice).unwrap_or_default();
        let mut places: Vec<CodeLocation> =
            frames.iter().filter_map(|&address| loaded::place(address)).collect();
        let is_ours = |file: &str| NOT_THE_PROGRAM.iter().any(|it| name_of(file).starts_with(it));
        // Frames inside of the runtime are of no interest, but where the program called it.
        let first = places.iter().rposition(|place| is_ours(&place.file)).map_or(0, |it| it + 1);
        places.drain(..first);
        places.truncate(MOST_TOLD);
        places
    }
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
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
        assert!(
            stacks.passes(other, name) && !stacks.passes(other, "libnvshmem_host") && !stacks.passes(99, "")
        );
        let path = file.display().to_string();
        let binaries = stacks.binaries(other);
        let (_, build_id) = binaries.iter().find(|(file, _)| *file == path).expect("its whole path");
        assert_eq!(*build_id, build_id_in(&std::fs::read(file).unwrap()));
    }
    /// As another reader finds it.
    fn build_id_in(file: &[u8]) -> String {
        use object::Object;
        let id = object::File::parse(file).unwrap().build_id().unwrap().unwrap_or_default();
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
