//! The tracer's start in a program. CUDA's driver loads the library that CUDA_INJECTION64_PATH
//! names when the program initialises it, and calls `InitializeInjection`; so a program without
//! CUDA never has it. With NVBit that library is another, which loads this one and calls
//! `mpisee_gpu_nvbit_start`.

use crate::backends::cupti;
use crate::backends::nvbit::{self, mpisee_nvbit, mpisee_nvbit_events};
use crate::backends::sanitizer::Sanitizer;
use crate::copies;
use crate::counting::file::Output;
use crate::device::backend::Backend;
use crate::events::state::{self, Shared, missed};
use crate::process::driver::{self, of_profiler};
use crate::process::{self, nvshmem, stacks};
use crate::trace::{self, trace};
use crate::tracer::{Settings, Tracer};
use mpisee_collect::{gpu, process as identity};
use mpisee_in_process::guards::signals;
use mpisee_profile::glob::Glob;
use mpisee_profile::options::Options;
use mpisee_profile::segment::owner_of;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::DirEntry;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The patches, beside the library.
const PATCHES: &str = "patches.fatbin";

/// The events that are counted.
enum Counted {
    /// Accesses of kernels.
    Kernels(&'static Shared),
    /// Copies and launches of the host.
    Copies,
}

struct Running {
    counted: Counted,
    segments: PathBuf,
    pid: u32,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// Called by the driver, once. Always returns success, which is any number but 0, so that the
/// program runs in any case.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guarded(|| {
        trace::begin();
        // The library that counts MPI complains of what is wrong with them.
        let (options, _) = Options::of_process();
        if options.gpu {
            start_kernels(&options, start_sanitizer)
        } else if options.gpu_copies && RUNNING.get().is_none() {
            start_copies(&options)
                .map_err(|why| format!("copies between host and GPUs are not counted: {why}"))
        } else {
            Ok(())
        }
    });
    1
}

/// Called by nvbit/tool.cpp, once; 0 if nothing is to be counted.
///
/// # Safety
/// `nvbit` is that of nvbit/tool.cpp, and there is room for the events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpisee_gpu_nvbit_start(
    nvbit: *const mpisee_nvbit,
    events: *mut mpisee_nvbit_events,
) -> c_int {
    // SAFETY: nvbit/tool.cpp has room for the events there.
    unsafe { events.write(nvbit::EVENTS) };
    c_int::from(guarded(|| {
        trace::begin();
        let (options, _) = Options::of_process();
        start_kernels(&options, |_, make| {
            // SAFETY: `nvbit` is that of nvbit/tool.cpp.
            unsafe { nvbit::start(nvbit, make) }.map_err(|why| format!("NVBit cannot be used: {why}"))
        })
    }))
}

/// Makes a tracer of a backend.
type Make = Box<dyn FnOnce(Box<dyn Backend>) -> Tracer>;

/// Starts the tracer, and says why it does not start; whether it runs.
fn guarded(start: impl FnOnce() -> Result<(), String>) -> bool {
    static SAID: AtomicBool = AtomicBool::new(false);
    std::panic::set_hook(Box::new(|panic| {
        if SAID.swap(true, Ordering::Relaxed) {
            return;
        }
        let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
        say(&format!(
            "an error inside the GPU tracer{place}: some events will not be seen; please report it"
        ));
    }));
    let _hidden = process::hide();
    let start = || {
        driver::find_functions();
        start()
    };
    match catch_unwind(AssertUnwindSafe(start)) {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(why)) => say(&why),
    }
    RUNNING.get().is_some()
}

fn say(text: &str) {
    if identity::speaks() {
        let _held = signals::hold([libc::SIGPIPE]);
        // A stderr that is closed or full is nobody's problem.
        let _ = std::io::stderr().write_all(format!("mpisee: {text}\n").as_bytes());
    }
}

fn start_kernels(
    options: &Options,
    backend: impl FnOnce(&Options, Make) -> Result<&'static Shared, String>,
) -> Result<(), String> {
    if !options.gpu || RUNNING.get().is_some() {
        return Ok(());
    }
    let settings = Settings {
        kernels: Glob::new(&options.gpu_kernels),
        sample: options.gpu_sample,
        intervals: options.gpu_intervals,
        // The program may go elsewhere.
        records: options.gpu_records.as_ref().and_then(|it| std::path::absolute(it).ok()),
        is_empty: std::env::var_os("MPISEE_GPU_EMPTY").is_some(),
        ..Settings::default()
    };
    let segments = options.segments.clone();
    let output = Box::new(move || output(&segments));
    trace!("begin {settings:?}");
    stacks::prepare();
    nvshmem::look();
    let shared = backend(options, Box::new(move |it| Tracer::new(it, settings, output)))
        .map_err(|why| format!("what GPU kernels access is not counted: {why}"))?;
    run(options, Counted::Kernels(shared));
    Ok(())
}

fn start_copies(options: &Options) -> Result<(), String> {
    let path = gpu::own_path(&options.segments, user());
    let output =
        Output::create(&path).map_err(|error| format!("'{}' cannot be made: {error}", path.display()))?;
    copies::start(output);
    cupti::start(options.gpu_cupti.as_deref()).inspect_err(|_| drop(std::fs::remove_file(&path)))?;
    run(options, Counted::Copies);
    Ok(())
}

/// Events come from now on.
fn run(options: &Options, counted: Counted) {
    trace!("listening");
    let running = Running { counted, segments: options.segments.clone(), pid: std::process::id() };
    if RUNNING.set(running).is_ok() {
        attach();
        // SAFETY: the handler is a function of this library, which is never unloaded, see build.rs.
        unsafe { libc::atexit(at_exit) };
    }
}

fn start_sanitizer(options: &Options, make: Make) -> Result<&'static Shared, String> {
    let library = options.gpu_sanitizer.as_ref();
    let library = library.ok_or("MPISEE_GPU_SANITIZER does not name libsanitizer-public.so")?;
    let patches = own_folder().ok_or("the folder of the tracer cannot be found")?.join(PATCHES);
    let wrong = |why| format!("{} cannot be used: {why}", library.display());
    let has_more = options.gpu_sample > 1 || options.gpu_records.is_some();
    Sanitizer::load(library, &patches, has_more).and_then(|sanitizer| sanitizer.start(make)).map_err(wrong)
}

fn own_folder() -> Option<PathBuf> {
    // SAFETY: zeros are a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let own = InitializeInjection as extern "C" fn() -> c_int;
    // SAFETY: dladdr(3) accepts any address.
    if unsafe { libc::dladdr(own as *const c_void, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of this library, which stays loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).parent().map(Path::to_owned)
}

fn user() -> u32 {
    // SAFETY: getuid cannot fail.
    unsafe { libc::getuid() }
}

fn output(segments: &Path) -> Option<Output> {
    let path = gpu::own_path(segments, user());
    Output::create(&path)
        .map_err(|error| {
            say(&format!("no counts of GPU kernels: '{}' cannot be made: {error}", path.display()))
        })
        .ok()
}

/// Registers with the profiler, if there is one, the functions by which it gets the last counts and
/// passes names of memory.
fn attach() {
    type Attach =
        unsafe extern "C" fn(extern "C" fn(), unsafe extern "C" fn(*const c_void, usize, *const c_char));
    type AttachCopies = unsafe extern "C" fn(extern "C" fn(u32, *const c_void, u64, c_int));
    let counts_copies = RUNNING.get().is_some_and(|it| matches!(it.counted, Counted::Copies));
    if counts_copies && let Some(address) = of_profiler(c"mpisee_gpu_attach_copies") {
        // SAFETY: the profiler's function has this type.
        unsafe { std::mem::transmute::<*mut c_void, AttachCopies>(address)(communicated) };
    }
    if let Some(address) = of_profiler(c"mpisee_gpu_attach") {
        // SAFETY: the profiler's function has this type.
        unsafe { std::mem::transmute::<*mut c_void, Attach>(address)(collect, name_memory) };
    }
}

/// Takes all counts, so that the file is complete.
extern "C" fn collect() {
    let _ = catch_unwind(|| {
        let Some(running) = RUNNING.get().filter(|it| it.pid == std::process::id()) else { return };
        let shared = match running.counted {
            Counted::Kernels(shared) => shared,
            Counted::Copies => {
                return copies::complete().unwrap_or_else(|why| {
                    say(&format!("some copies between host and GPUs could not be written: {why}"));
                });
            }
        };
        shared.act(|state| {
            if let Some(sentence) = missed() {
                state.tracer.note(&sentence);
            }
            state.tracer.collect_all();
            if let Some(why) = state.tracer.output().and_then(Output::failure) {
                say(&format!("some counts of GPU kernels could not be written: {why}"));
            }
        });
    });
}

/// MPI sent memory of the host on a communicator, or, if `is_sent` is 0, received into it.
extern "C" fn communicated(communicator: u32, address: *const c_void, bytes: u64, is_sent: c_int) {
    copies::communicated(communicator, address.addr() as u64, bytes, is_sent != 0);
}

/// Gives memory a name.
///
/// # Safety
/// The name ends in a zero.
unsafe extern "C" fn name_memory(address: *const c_void, bytes: usize, name: *const c_char) {
    // SAFETY: the name ends in a zero, as libmpisee.so has been promised by the program.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let _ = catch_unwind(|| {
        let Some(running) = RUNNING.get().filter(|it| it.pid == std::process::id()) else { return };
        let Counted::Kernels(shared) = running.counted else { return };
        let (begin, bytes) = (address.addr() as u64, bytes as u64);
        let is_of_nvshmem = shared.act(|state| state.tracer.is_of_nvshmem(begin)) == Some(true);
        let symmetric = if is_of_nvshmem { nvshmem::symmetric(begin, bytes) } else { None };
        shared.act(|state| state.tracer.name_memory(begin, bytes, &name, symmetric.as_ref()));
    });
}

/// A program that does not use MPI, or no longer, leaves nothing behind: nobody would come for it.
/// What CUDA's runtime does at its exit, such as to unload modules, comes after this: it was loaded
/// before.
extern "C" fn at_exit() {
    state::end();
    let is_own = |it: &&Running| it.pid == std::process::id() && matches!(it.counted, Counted::Copies);
    if RUNNING.get().filter(is_own).is_some() {
        // A process that ends without MPI_Finalize leaves all. One that calls it in a later handler
        // completes the file once more.
        let _ = copies::complete();
    }
    copies::end();
    let _ = catch_unwind(|| {
        let Some(running) = RUNNING.get().filter(|it| it.pid == std::process::id()) else { return };
        let own = Some((user(), running.pid));
        let is_segment = |it: DirEntry| it.file_name().to_str().and_then(owner_of) == own;
        let entries = running.segments.read_dir().into_iter().flatten().flatten();
        if !entries.into_iter().any(is_segment) {
            let _ = std::fs::remove_file(gpu::own_path(&running.segments, user()));
        }
    });
}
