//! A note on libraries that are linked into the program: libraries that call MPI are known by their
//! files, and these have none.

use crate::sites::{How, PlaceSum};
use std::collections::BTreeMap;

/// How functions of libraries begin that communicate for programs, and are linked statically at
/// times: h5pcc does it by default.
const PREFIXES: [&str; 9] =
    ["H5", "nc_", "NC4_", "ncmpi", "adios2::", "Petsc", "hypre_", "HYPRE_", "fftw_mpi_"];

/// Names a pattern for each library that seems to make calls of these places, and one of its
/// functions.
pub fn note(sums: &[PlaceSum]) -> Option<String> {
    let mut found: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for sum in sums {
        let place = sum.place.as_ref().filter(|place| place.how == How::Innermost);
        let Some(frame) = place.and_then(|place| place.frames.first()) else { continue };
        if let Some(prefix) = PREFIXES.into_iter().find(|prefix| frame.function.starts_with(prefix)) {
            found.entry(prefix).or_insert((&frame.function, &frame.module));
        }
    }
    let (function, module) = *found.values().next()?;
    let options: Vec<String> = found.keys().map(|prefix| format!("--skip-frames '{prefix}*'")).collect();
    Some(format!(
        "{function} seems to be of a library that is linked into {module}: {} shows who calls that.",
        options.join(" ")
    ))
}
