//! `--mpi-t list`: the variables of an MPI library, as it has them before `MPI_Init`.

use crate::companion::flavour_for_launcher;
use crate::failure::Failure;
use crate::flavours::{Flavour, Installation};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

mod table;

/// The function of the profiler's library that lists them.
const LIST: &CStr = c"mpisee_list_variables";

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Lists the variables of a flavour's MPI on standard output.
pub fn list(flavour: Option<&str>) -> Result<(), Failure> {
    let installation = Installation::find();
    let flavour = flavour_for_launcher(&installation, flavour).map_err(Failure::NoVariables)?;
    let lines = lines(flavour).map_err(Failure::NoVariables)?;
    match std::io::stdout().write_all(listed(&flavour.name, &lines, table::terminal_width()).as_bytes()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(why)),
        _ => Ok(()),
    }
}

/// The lines that the profiler's library has about its MPI.
fn lines(flavour: &Flavour) -> Result<Vec<String>, String> {
    let in_place = flavour.library.exists();
    let library = if in_place { flavour.library.as_path() } else { Path::new(&flavour.soname) };
    open(library, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    let profiler = open(&flavour.profiler, libc::RTLD_NOW)?;
    // SAFETY: the handle was just opened, and the name ends in a zero.
    let list = unsafe { libc::dlsym(profiler, LIST.as_ptr()) };
    if list.is_null() {
        return Err(format!("'{}' is of another version of mpisee", flavour.profiler.display()));
    }
    // SAFETY: the function of that name has this type.
    let list: unsafe extern "C" fn(extern "C" fn(*const u8, usize)) -> c_int =
        unsafe { std::mem::transmute(list) };
    // SAFETY: `keep` takes the bytes of a line.
    match unsafe { list(keep) } {
        0 => Ok(LINES.take()),
        _ => Err(format!("the MPI of {} has no variables for tools", flavour.name)),
    }
}

extern "C" fn keep(line: *const u8, length: usize) {
    // SAFETY: the library passes the bytes of a line.
    let line = unsafe { std::slice::from_raw_parts(line, length) };
    LINES.with_borrow_mut(|lines| lines.push(String::from_utf8_lossy(line).into_owned()));
}

fn open(library: &Path, how: c_int) -> Result<*mut c_void, String> {
    let cannot = |why: &str| format!("cannot load '{}': {why}", library.display());
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|_| cannot("its name has a zero"))?;
    // SAFETY: the path ends in a zero; what the constructors of an MPI library do is as safe as in
    // any of its programs.
    let handle = unsafe { libc::dlopen(path.as_ptr(), how) };
    if handle.is_null() {
        // SAFETY: after an error there is a text, until the next call.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy();
        return Err(cannot(&why));
    }
    Ok(handle)
}

/// The tables of performance and control variables, fitted to a terminal, and sentences on what is
/// read and on events.
fn listed(flavour: &str, lines: &[String], width: Option<usize>) -> String {
    let fields: Vec<Vec<&str>> = lines.iter().map(|line| line.split('\t').collect()).collect();
    let of = |kind: &'static str| fields.iter().filter(move |it| it[0] == kind && it.len() == 7);
    let mut performance =
        vec![["PERFORMANCE VARIABLE", "CLASS", "TYPE", "OF", "READ", "IS"].map(str::to_owned)];
    performance
        .extend(of("performance").map(|it| [it[1], it[2], it[3], it[4], it[5], it[6]].map(str::to_owned)));
    let mut control = vec![["CONTROL VARIABLE", "TYPE", "VALUE", "IS"].map(str::to_owned)];
    control.extend(of("control").map(|it| [it[1], it[3], it[5], it[6]].map(str::to_owned)));
    let events = fields.iter().find(|fields| fields[0] == "events").and_then(|fields| fields.get(1));
    let events = match events {
        None => "This MPI has no functions for events (MPI 4.0).".to_owned(),
        Some(&"0") => "This MPI has the functions for events (MPI 4.0), and none.".to_owned(),
        Some(number) => format!("This MPI has {number} types of events, which are not read."),
    };
    let never = match of("performance").any(|it| it[5] == "never") {
        true => " Texts, and variables of objects other than communicators, are never read.",
        false => "",
    };
    let sentences = format!(
        "{flavour}, before MPI_Init, which may add some: performance variables {}, control variables {}.{never} {events}",
        performance.len() - 1,
        control.len() - 1
    );
    let [performance, control] = [table::lines(&performance, width), table::lines(&control, width)];
    format!("{performance}\n{control}\n{}", table::sentences(&sentences, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_listed_by_kind() {
        let lines = [
            "performance\tpml_x\tlevel\tuint32\tcommunicator\tif pml_x is in use\tLength of a queue",
            "performance\tosc_y\tcounter\tuint64\tother object\tnever\tRetries",
            "control\tcoll_y\t\ttext\tprocess\tself,basic\tWhich to use",
            "events\t0",
        ]
        .map(str::to_owned);
        let expected = "\
PERFORMANCE VARIABLE  CLASS    TYPE    OF            READ                IS
pml_x                 level    uint32  communicator  if pml_x is in use  Length of a queue
osc_y                 counter  uint64  other object  never               Retries

CONTROL VARIABLE  TYPE  VALUE       IS
coll_y            text  self,basic  Which to use

mpi-1, before MPI_Init, which may add some: performance variables 2, control variables 1. Texts, and variables of objects other than communicators, are never read. This MPI has the functions for events (MPI 4.0), and none.
";
        assert_eq!(listed("mpi-1", &lines, None), expected);
    }
}
