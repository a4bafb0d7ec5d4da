//! Control variables of MPI's tool interface (MPI_T).

use mpi::ffi;
use mpisee_bench::trial::Variable;
use mpisee_bench::tune::selection::{FILE, built_in};
use std::ffi::{CStr, OsStr};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

/// Reads the variables of these names, and all that choose algorithms: those whose names end in
/// `_algorithm`. None where the MPI has no tool interface.
pub fn read(names: &[String]) -> Vec<Variable> {
    let mut provided = 0;
    // SAFETY: the interface may be initialised at any time, and is finalised below.
    if unsafe { ffi::MPI_T_init_thread(0, &mut provided) } != ffi::MPI_SUCCESS as c_int {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: the interface is initialised.
    unsafe { ffi::MPI_T_cvar_get_num(&mut count) };
    let is_wanted =
        |name: &str| names.iter().any(|it| it == name) || name.to_ascii_lowercase().ends_with("_algorithm");
    let found = (0..count).filter_map(|index| variable(index, is_wanted)).collect();
    // SAFETY: it was initialised above, and no handle is left.
    unsafe { ffi::MPI_T_finalize() };
    found
}

/// The tree by which MPICH selects algorithms, from the file of its library; none of other MPIs.
pub fn selection() -> Option<String> {
    // SAFETY: all fields of the struct are pointers, which may be null.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is of a function, and the struct is written to.
    if unsafe { libc::dladdr(ffi::MPI_Init as *const c_void, &mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is a text that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    built_in(&std::fs::read(Path::new(OsStr::from_bytes(name.to_bytes()))).ok()?)
}

/// `MPI_T_BIND_NO_OBJECT` of Open MPI, and of MPICH and what comes from it; the other's is no
/// binding of either.
const NO_OBJECT: [c_int; 2] = [0, 9700];
/// Characters of a name or description at the most.
const LONGEST: usize = 8192;

fn variable(index: c_int, is_wanted: impl Fn(&str) -> bool) -> Option<Variable> {
    let mut name = [0_u8; 512];
    let mut description = vec![0_u8; LONGEST];
    let (mut name_length, mut description_length) = (name.len() as c_int, description.len() as c_int);
    let (mut verbosity, mut bind, mut scope) = (0, 0, 0);
    // SAFETY: the buffers are as long as their lengths say; MPI ends the texts within. All other
    // places are for one value each. A handle of an enumeration is a pointer in all MPIs, of which
    // zeros are none.
    let (code, kind, names) = unsafe {
        let mut kind = ffi::RSMPI_DATATYPE_NULL;
        let mut names: ffi::MPI_T_enum = std::mem::zeroed();
        let code = ffi::MPI_T_cvar_get_info(
            index,
            name.as_mut_ptr().cast::<c_char>(),
            &mut name_length,
            &mut verbosity,
            &mut kind,
            &mut names,
            description.as_mut_ptr().cast::<c_char>(),
            &mut description_length,
            &mut bind,
            &mut scope,
        );
        (code, kind, names)
    };
    let name = text(&name);
    if code != ffi::MPI_SUCCESS as c_int || !NO_OBJECT.contains(&bind) || !is_wanted(&name) {
        return None;
    }
    // Of its variables that are texts, MPICH has the default here, whatever is set; it takes the
    // value from the environment alone.
    let value = match value(index, kind)? {
        text if text.is_empty() && name == FILE => std::env::var(FILE).unwrap_or_default(),
        value => value,
    };
    Some(Variable { name, description: text(&description), value, names: enumeration(names) })
}

/// The text up to the first zero.
fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The value of a variable that belongs to no object: a text, or a whole number of one, four or
/// eight bytes.
fn value(index: c_int, kind: ffi::MPI_Datatype) -> Option<String> {
    let mut size = 0;
    let mut count = 0;
    // SAFETY: the handle is freed below; the buffer has room for as many values as the handle says.
    unsafe {
        let mut handle: ffi::MPI_T_cvar_handle = std::mem::zeroed();
        let is_done = |code: c_int| code == ffi::MPI_SUCCESS as c_int;
        if !is_done(ffi::MPI_Type_size(kind, &mut size))
            || !is_done(ffi::MPI_T_cvar_handle_alloc(index, null_mut(), &mut handle, &mut count))
        {
            return None;
        }
        let values = usize::try_from(count).unwrap_or(0) * usize::try_from(size).unwrap_or(0);
        let mut buffer = vec![0_u64; values / 8 + 2];
        let code = ffi::MPI_T_cvar_read(handle, buffer.as_mut_ptr().cast::<c_void>());
        ffi::MPI_T_cvar_handle_free(&mut handle);
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        match (is_done(code), size) {
            // A truth value, rather than a text.
            (true, 1) if count == 1 => Some(bytes[0].to_string()),
            (true, 1) => Some(text(&bytes)),
            (true, 4) => Some(i32::from_ne_bytes(bytes[..4].try_into().ok()?).to_string()),
            (true, 8) => Some(i64::from_ne_bytes(bytes[..8].try_into().ok()?).to_string()),
            _ => None,
        }
    }
}

/// The names of an enumeration's values; nothing for the null handle, which is a null pointer in
/// Open MPI and MPICH.
fn enumeration(names: ffi::MPI_T_enum) -> Vec<(i64, String)> {
    let mut name = [0_u8; 512];
    let mut length = name.len() as c_int;
    let mut count = 0;
    if names.is_null() {
        return Vec::new();
    }
    // SAFETY: the handle is of a variable; the buffer is as long as its length says.
    let code = unsafe {
        ffi::MPI_T_enum_get_info(names, &mut count, name.as_mut_ptr().cast::<c_char>(), &mut length)
    };
    if code != ffi::MPI_SUCCESS as c_int {
        return Vec::new();
    }
    let item = |index: c_int| {
        let mut name = [0_u8; 512];
        let mut length = name.len() as c_int;
        let mut number = 0;
        // SAFETY: the enumeration has items up to its count; the buffer is as long as its length
        // says.
        let code = unsafe {
            let name = name.as_mut_ptr().cast::<c_char>();
            ffi::MPI_T_enum_get_item(names, index, &mut number, name, &mut length)
        };
        (code == ffi::MPI_SUCCESS as c_int).then(|| (i64::from(number), text(&name)))
    };
    (0..count).filter_map(item).collect()
}
