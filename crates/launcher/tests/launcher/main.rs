//! The launcher as users meet it, in installations whose profiler only begins to record: what the
//! program finds in its environment, what is said, and how it ends. No MPI is involved.

mod doctor;
mod standby;
mod support;

use mpisee_profile::options::{ALONE, SETTINGS};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use support::{Installation, MPICH, OPEN_MPI, script};

#[test]
fn the_profiler_is_preloaded_before_what_was_there() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let run = installed.mpisee(&["env"]).run();
    assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(OPEN_MPI)));
    assert_eq!(run.stderr, "");

    // The dynamic loader reports a library that it cannot load, and goes on.
    let run = installed.mpisee(&["env"]).variable("LD_PRELOAD", "libnowhere.so").run();
    assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(OPEN_MPI) + ":libnowhere.so"));
}

#[test]
fn the_profiler_is_loaded_into_the_program() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let run = installed.mpisee(&["cat", "/proc/self/maps"]).run();
    assert!(run.stdout.contains(&installed.profiler(OPEN_MPI)), "{run:?}");
}

#[test]
fn options_become_variables_and_win_over_inherited_ones() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let run = installed
        .mpisee(&["--output", "here/a.mpisee", "--record", "off", "env"])
        .variable("MPISEE_OUTPUT", "there")
        .variable("MPISEE_QUIET", "on")
        .run();
    let here = std::env::current_dir().unwrap();
    assert_eq!(run.variable("MPISEE_OUTPUT"), Some(here.join("here/a.mpisee").display().to_string()));
    assert_eq!(run.variable("MPISEE_START_FOLDER"), Some(here.display().to_string()));
    assert_eq!(run.variable("MPISEE_RECORD").as_deref(), Some("off"));
    assert_eq!(run.variable("MPISEE_QUIET").as_deref(), Some("on"));
    assert_eq!(run.variable("MPISEE_CLOCK"), None);
}

/// A CUDA driver with so many GPUs, in a folder of its own.
fn driver(installed: &Installation, devices: u32) -> String {
    let source = format!(
        "int cuInit(unsigned flags) {{ return (int)(0 & flags); }}\n\
         int cuDeviceGetCount(int *count) {{ *count = {devices}; return 0; }}"
    );
    let source = installed.file("driver/cuda.c", source, 0o644);
    let folder = Path::new(&source).parent().unwrap();
    let library = folder.join("libcuda.so.1");
    let compiled =
        std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.unwrap().success());
    folder.display().to_string()
}

#[test]
fn kernels_are_traced_where_all_that_is_needed_is_there() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let tracer = installed.file("lib/mpisee/gpu/libmpisee_gpu.so", "", 0o644);
    installed.file("lib/mpisee/gpu/patches.fatbin", "", 0o644);
    let sanitizer = installed.file("cuda/compute-sanitizer/libsanitizer-public.so", "", 0o644);
    let cuda = sanitizer.strip_suffix("/compute-sanitizer/libsanitizer-public.so").unwrap().to_owned();
    let driver = driver(&installed, 1);
    let run = |arguments: &[&str]| {
        installed.mpisee(arguments).variable("CUDA_HOME", &cuda).variable("LD_LIBRARY_PATH", &driver).run()
    };
    let traced = run(&["--gpu", "--gpu-sample", "100", "env"]);
    assert_eq!(traced.stderr, "");
    assert_eq!(traced.variable("CUDA_INJECTION64_PATH"), Some(tracer));
    assert_eq!(traced.variable("MPISEE_GPU_SANITIZER"), Some(sanitizer));
    assert_eq!(traced.variable("MPISEE_GPU_SAMPLE").as_deref(), Some("100"));
    assert_eq!(traced.variable("MPISEE_GPU").as_deref(), Some("on"));
    let nvbit = installed.file("lib/mpisee/gpu/libmpisee_gpu_nvbit.so", "", 0o644);
    let disassembler = installed.file("cuda/bin/nvdisasm", "", 0o755);
    let traced = run(&["--gpu", "--gpu-backend", "nvbit", "env"]);
    assert_eq!(traced.stderr, "");
    assert_eq!(traced.variable("CUDA_INJECTION64_PATH"), Some(nvbit));
    assert_eq!(traced.variable("NVDISASM"), Some(disassembler));
    assert_eq!(traced.variable("NOBANNER").as_deref(), Some("1"));
    assert_eq!(traced.variable("ACK_CTX_INIT_LIMITATION").as_deref(), Some("1"));
    let plain = run(&["env"]);
    assert_eq!(plain.variable("CUDA_INJECTION64_PATH"), None);
    let off = run(&["--gpu=off", "env"]);
    assert_eq!((off.variable("CUDA_INJECTION64_PATH"), off.stderr.as_str()), (None, ""));
}

#[test]
fn without_a_gpu_one_sentence_is_said_and_the_rest_is_profiled() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let said = |run: &support::Outcome, why: &str| {
        assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(OPEN_MPI)), "{run:?}");
        assert_eq!(run.variable("MPISEE_GPU").as_deref(), Some("off"));
        assert_eq!(run.variable("CUDA_INJECTION64_PATH"), None);
        assert!(run.stderr.contains(why) && run.stderr.lines().count() == 1, "{run:?}");
        assert!(
            run.stderr.contains("so what GPU kernels access is not counted; the rest is profiled"),
            "{run:?}"
        );
        let for_profile = run.variable("MPISEE_NOT_COUNTED").unwrap_or_default();
        assert!(
            for_profile.starts_with("what GPU kernels access is not counted: ") && for_profile.contains(why),
            "{run:?}"
        );
    };
    said(&installed.mpisee(&["--gpu", "env"]).run(), "libmpisee_gpu.so");
    installed.file("lib/mpisee/gpu/libmpisee_gpu.so", "", 0o644);
    said(&installed.mpisee(&["--gpu", "env"]).run(), "patches.fatbin, which `cargo xtask dist` makes");
    installed.file("lib/mpisee/gpu/patches.fatbin", "", 0o644);
    let none = driver(&installed, 0);
    said(
        &installed.mpisee(&["--gpu", "env"]).variable("LD_LIBRARY_PATH", &none).run(),
        "the CUDA driver finds no GPU here",
    );
    // A file that is no library comes first wherever this runs.
    installed.file("driver/libcuda.so.1", "not a library", 0o644);
    if !Path::new("/proc/driver/nvidia").exists() {
        said(
            &installed.mpisee(&["--gpu", "env"]).variable("LD_LIBRARY_PATH", &none).run(),
            "there is no CUDA driver here (libcuda.so.1 cannot be loaded)",
        );
    }
}

#[test]
fn a_bad_value_is_refused_before_the_program_starts() {
    let run =
        Installation::with_flavours(&[OPEN_MPI]).mpisee(&["--clock", "sundial", "echo", "started"]).run();
    assert_eq!(run.status.code(), Some(2));
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("'sundial' for '--clock <auto|monotonic>': is neither auto nor"), "{run:?}");
}

#[test]
fn arguments_and_input_arrive_unchanged() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let run = installed.mpisee(&["printf", "<%s>", "--output", "a b", "", "--", "-h"]).run();
    assert_eq!(run.stdout, "<--output><a b><><--><-h>");
    let run = installed.mpisee(&["cat"]).input("from standard input").run();
    assert_eq!(run.stdout, "from standard input");
}

#[test]
fn the_program_keeps_the_name_it_was_called_by() {
    let run = Installation::with_flavours(&[OPEN_MPI])
        .mpisee(&["sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline"])
        .run();
    assert!(run.stdout.starts_with("sh -c "), "{run:?}");
}

#[test]
fn the_exit_code_is_the_programs() {
    let run = Installation::with_flavours(&[OPEN_MPI]).mpisee(&["sh", "-c", "exit 42"]).run();
    assert_eq!(run.status.code(), Some(42));
}

#[test]
fn the_program_is_the_same_process_and_dies_of_its_own_signal() {
    let run = Installation::with_flavours(&[OPEN_MPI]).mpisee(&["sh", "-c", "echo $$; kill -TERM $$"]).run();
    assert_eq!(run.stdout.trim(), run.pid.to_string());
    assert_eq!(run.status.signal(), Some(15));
}

#[test]
fn the_program_is_not_deaf_to_a_closed_pipe() {
    let run = Installation::with_flavours(&[OPEN_MPI]).mpisee(&["grep", "SigIgn", "/proc/self/status"]).run();
    assert!(!ignores_sigpipe(&run.stdout), "{run:?}");
}

#[test]
fn a_closed_pipe_that_was_ignored_stays_so() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let run = installed.mpisee_after("trap '' PIPE", &["grep", "SigIgn", "/proc/self/status"]).run();
    assert!(ignores_sigpipe(&run.stdout), "{run:?}");
}

fn ignores_sigpipe(status: &str) -> bool {
    const SIGPIPE: u32 = 13;
    let ignored = u64::from_str_radix(status.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    ignored & 1 << (SIGPIPE - 1) != 0
}

#[test]
fn a_program_that_is_not_there_ends_as_in_a_shell() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    for (program, message) in [
        ("no-such-program", "there is no program no-such-program in PATH; one in the working directory is"),
        ("./no-such-program", "there is no program ./no-such-program\n"),
    ] {
        // Every rank says so: the first one that ends takes the others with it.
        let run = installed.mpisee(&[program]).variable("PMI_RANK", "1").run();
        assert_eq!(run.status.code(), Some(127));
        assert!(run.stderr.starts_with(&format!("mpisee: {message}")), "{run:?}");
    }
    for (slip, is_known) in [("dcotor", true), ("doktor", true), ("dot", false)] {
        let run = installed.mpisee(&[slip]).run();
        assert_eq!(run.stderr.ends_with(", and the command is `mpisee doctor`\n"), is_known, "{run:?}");
    }
}

#[test]
fn a_program_in_the_working_directory_is_found_where_the_launcher_finds_it() {
    let installed = Installation::with_flavours(&[OPEN_MPI, MPICH]);
    let own = installed.file("here/own-program", script("echo here"), 0o755);
    let other = installed.file("path/own-program", script("echo path"), 0o755);
    let [here, path] = [&own, &other].map(|file| Path::new(file).parent().unwrap().display().to_string());
    let run = |launcher: &str, search: &str| {
        let commands = format!("cd '{here}'; export PATH=\"{search}$PATH\"");
        installed.mpisee_after(&commands, &["own-program"]).variable(launcher, "0").run()
    };
    assert_eq!(run("OMPI_COMM_WORLD_SIZE", "").stdout, "here\n");
    assert_eq!(run("OMPI_COMM_WORLD_SIZE", &format!("{path}:")).stdout, "path\n", "PATH comes first");
    assert_eq!(run("PMI_RANK", "").status.code(), Some(127), "MPICH's launcher does not look there");
}

#[test]
fn an_output_may_have_any_bytes() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    // The test reads text.
    let print = "printf %s \"$MPISEE_OUTPUT\" | od -An -c -v | tr -d ' \\n'";
    let commands = "set -- -q -o \"$(printf 'caf\\351')\" \"$@\"";
    let run = installed.mpisee_after(commands, &["sh", "-c", print]).run();
    assert!(run.stdout.ends_with("/caf351"), "{run:?}");
}

#[test]
fn program_that_cannot_be_executed_exits_as_in_a_shell() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let data = installed.file("data.txt", "text", 0o644);
    let run = installed.mpisee(&[&data]).run();
    assert_eq!(run.status.code(), Some(126));
    assert_eq!(run.stderr, format!("mpisee: {data} is not executable: chmod +x makes it so\n"));
    let run = installed.mpisee(&["/"]).run();
    assert_eq!((run.status.code(), run.stderr.as_str()), (Some(126), "mpisee: / is a directory\n"));
    // The kernel finds that out, after everything else went well.
    let orphan = installed.file("orphan", "#!/no/such/interpreter\n", 0o755);
    let run = installed.mpisee(&[&orphan]).run();
    assert_eq!(run.status.code(), Some(127));
    assert!(run.stderr.starts_with(&format!("mpisee: {orphan} cannot be started: ")), "{run:?}");
}

#[test]
fn an_unknown_flavour_is_an_error_that_lists_the_known() {
    let run = Installation::with_flavours(&[MPICH, OPEN_MPI]).mpisee(&["--flavour", "mpich-9", "env"]).run();
    assert_eq!((run.status.code(), run.stdout.as_str()), (Some(2), ""));
    assert_eq!(run.stderr, "mpisee: there is no flavour mpich-9: installed are mpich-4.0, openmpi-4.1\n");
}

#[test]
fn a_flavour_can_be_demanded() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    for flavour in [MPICH, OPEN_MPI] {
        let run = installed.mpisee(&["--flavour", flavour.name, "env"]).run();
        assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(flavour)));
    }
}

#[test]
fn mpi_linked_through_another_library_decides() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let mpi = installed.library("libmpi.so.40", "int MPI_Init(void) { return 0; }", &[]);
    let solver = installed.library(
        "libsolver.so",
        "int MPI_Init(void); int solve(void) { return MPI_Init(); }",
        &[&mpi],
    );
    let print = "#include <stdio.h>\n#include <stdlib.h>\n\
                 int solve(void); int main(void) { puts(getenv(\"LD_PRELOAD\")); return solve(); }";
    let program = installed.program("app", print, &[&solver]);
    // What the environment says of a launcher counts only where the program itself does not show
    // its MPI.
    let run = installed.mpisee(&[&program]).variable("PMI_RANK", "0").run();
    assert_eq!((run.stdout.trim(), run.stderr.as_str()), (installed.profiler(OPEN_MPI).as_str(), ""));

    let only_mpich = Installation::with_flavours(&[MPICH]);
    let run = only_mpich.mpisee(&[&program]).variable("LD_PRELOAD", "").run();
    assert_eq!(run.stdout, "\n");
    let message = format!(
        "mpisee: {program} needs libmpi.so.40, for which no flavour is installed (there are mpich-4.0)"
    );
    assert!(run.stderr.starts_with(&message), "{run:?}");
}

#[test]
fn a_runtime_that_insists_on_being_first_is_arranged_with() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let print = "#include <stdio.h>\n#include <stdlib.h>\nint checks(void);\n\
                 int main(void) { const char *options = getenv(\"ASAN_OPTIONS\");\n\
                 printf(\"%s %s\\n\", getenv(\"LD_PRELOAD\"), options ? options : \"\"); return checks(); }";
    let profiler = installed.profiler(OPEN_MPI);
    let old = installed.library("libasan.so.5", "int checks(void) { return 0; }", &[]);
    let program = installed.program("old", print, &[&old]);
    let run = installed.mpisee(&[&program]).variable("LD_PRELOAD", "libnowhere.so").run();
    assert_eq!(run.stdout, format!("{old}:{profiler}:libnowhere.so \n"), "{run:?}");

    // One that has the option need not be preloaded, so that the program's children are spared.
    let source = "const char *option = \"verify_asan_link_order\"; int checks(void) { return 0; }";
    let new = installed.library("libasan.so.8", source, &[]);
    let program = installed.program("new", print, &[&new]);
    let run = installed.mpisee(&[&program]).variable("ASAN_OPTIONS", "detect_leaks=0").run();
    assert_eq!(run.stdout, format!("{profiler} verify_asan_link_order=0:detect_leaks=0\n"), "{run:?}");
}

#[test]
fn a_static_program_is_said_to_be_one() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let program = installed.program("app", "int main(void) { return 7; }", &["-static"]);
    let run = installed.mpisee(&[&program]).run();
    assert_eq!(run.status.code(), Some(7));
    assert!(run.stderr.starts_with(&format!("mpisee: {program} is linked statically")), "{run:?}");
}

#[test]
fn a_script_that_calls_the_launcher_is_told_where_mpisee_goes() {
    let installed = Installation::with_flavours(&[OPEN_MPI, MPICH]);
    let script = installed.file("job.sh", script("env\n: mpirun -n 4 ./app"), 0o755);
    let run = installed.mpisee(&[&script]).run();
    let said = format!(
        "mpisee: {script} is a script that calls mpirun, so it runs unprofiled. In the script, put mpisee \
         between mpirun and the MPI program: mpirun … mpisee PROGRAM\n"
    );
    assert_eq!(run.stderr, said);
    // Under a launcher the script is what it started.
    let run = installed.mpisee(&[&script]).variable("PMI_RANK", "0").run();
    assert_eq!(run.stderr, "");
}

#[test]
fn the_launcher_of_the_mpi_decides_for_a_script() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let script = installed.file("app.sh", script("env"), 0o755);
    for (name, flavour) in [("OMPI_COMM_WORLD_SIZE", OPEN_MPI), ("PMI_RANK", MPICH)] {
        let run = installed.mpisee(&[&script]).variable(name, "0").run();
        assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(flavour)));
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn undecided_program_runs_unprofiled_and_rank_0_says_how_to_decide() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let script = installed.file("app.sh", script("env"), 0o755);
    let run = installed.mpisee(&[&script]).run();
    assert_eq!(run.variable("LD_PRELOAD"), None);
    assert!(
        run.stderr.starts_with(&format!("mpisee: {script} is a script, and nothing shows which MPI")),
        "{run:?}"
    );
    assert!(
        run.stderr
            .contains("choose the MPI with --flavour (mpich-4.0, openmpi-4.1). If the program uses NCCL"),
        "{run:?}"
    );
    let run = installed.mpisee(&["env"]).variable("SLURM_PROCID", "0").run();
    assert!(run.stderr.starts_with("mpisee: env is not linked with MPI"), "{run:?}");
    let run = installed.mpisee(&["env"]).variable("SLURM_PROCID", "1").run();
    assert_eq!((run.variable("LD_PRELOAD"), run.stderr.as_str()), (None, ""));
}

#[test]
fn a_program_whose_libraries_cannot_be_listed_is_not_said_to_have_no_mpi() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let no_processes = ["prlimit", "--nproc=0"];
    let run = installed.mpisee_of_user(&no_processes, &["true"]).run();
    let said = "mpisee: true has libraries that cannot be listed, since its dynamic loader does not start: ";
    assert!(run.status.success() && run.stderr.starts_with(said), "{run:?}");
    assert!(run.stderr.contains("choose the MPI with --flavour (mpich-4.0, openmpi-4.1)"), "{run:?}");
}

#[test]
fn descriptors_that_were_closed_are_closed_in_the_program() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let source = "#include <fcntl.h>\n\
                  int main(void) { int open = 0; for (int i = 0; i < 3; i++) open |= (fcntl(i, F_GETFD) >= 0) << i; return open; }";
    let program = installed.program("open", source, &[]);
    for (closing, open) in
        [("true", 7), ("exec 0<&-", 6), ("exec 1>&-", 5), ("exec 2>&-", 3), ("exec 0<&- 1>&- 2>&-", 0)]
    {
        let run = installed.mpisee_after(closing, &[&program]).run();
        assert_eq!((run.status.code(), run.stderr.as_str()), (Some(open), ""), "{closing}");
    }
}

#[test]
fn without_any_flavour_the_program_still_runs() {
    let installed = Installation::with_flavours(&[]);
    let run = installed.mpisee(&["echo", "it runs"]).run();
    assert_eq!(run.stdout, "it runs\n");
    assert!(run.stderr.starts_with("mpisee: no flavour is installed in "), "{run:?}");
}

#[test]
fn the_wrong_order_is_explained() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let mpirun = installed.file("mpirun.openmpi", script("env"), 0o755);
    let run = installed.mpisee(&[&mpirun, "-n", "4", "./app"]).run();
    assert_eq!(run.variable("LD_PRELOAD"), None);
    assert!(run.stderr.ends_with(&format!("{mpirun} … mpisee PROGRAM\n")), "{run:?}");
}

#[test]
fn a_path_that_cannot_be_preloaded_is_said() {
    let installed = Installation::in_folder("a folder", &[OPEN_MPI]);
    let run = installed.mpisee(&["env"]).run();
    assert_eq!(run.variable("LD_PRELOAD"), None);
    assert!(run.stderr.contains("has a space or a colon"), "{run:?}");
}

#[test]
fn a_damaged_flavour_is_said_and_the_others_are_used() {
    let installed = Installation::with_flavours(&[OPEN_MPI]);
    let damaged = Path::new("lib/mpisee/damaged");
    installed.file(damaged.join("libmpisee.so"), "", 0o644);
    installed.file(damaged.join("flavour.json"), "{", 0o644);
    let run = installed.mpisee(&["env"]).run();
    assert_eq!(run.variable("LD_PRELOAD"), Some(installed.profiler(OPEN_MPI)));
    assert!(run.stderr.contains("damaged/flavour.json cannot be used: "), "{run:?}");
}

#[test]
fn the_list_names_every_flavour() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let run = installed.mpisee(&["--flavours"]).run();
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let lines: Vec<_> = run.stdout.lines().map(cells).collect();
    assert_eq!(lines.len(), 3, "{run:?}");
    assert_eq!(lines[1][..3], ["mpich-4.0", "libmpich.so.12", "MPICH Version: 4.0.2"]);
    assert_eq!(lines[2].last(), Some(&installed.profiler(OPEN_MPI)));
}

#[test]
fn help_shows_every_option_with_its_variable_and_default() {
    let run = Installation::with_flavours(&[]).mpisee(&["--help"]).run();
    let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in SETTINGS {
        let stated = format!("[default: {}; {}]", setting.default, setting.variable);
        let is_alone = ALONE.iter().any(|(option, _)| *option == setting.option);
        let value =
            if is_alone { format!("[=<{}>]", setting.value) } else { format!(" <{}>", setting.value) };
        assert!(text.contains(&format!("--{}{value}", setting.option)), "{text}");
        assert!(text.contains(&stated), "{text}");
    }
    assert!(text.contains("EXAMPLES"));
    assert_eq!(run.stderr, "");
}

/// The line that is said goes to a file that may not grow.
#[test]
fn a_limit_on_the_size_of_files_does_not_keep_the_program_from_starting() {
    let installed = Installation::with_flavours(&[MPICH, OPEN_MPI]);
    let program = installed.file("app.sh", script("exit 7"), 0o755);
    let log = installed.file("log", "", 0o644);
    let launcher = Path::new(&program).with_file_name("bin").join("mpisee");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 0; exec \"$0\" \"$1\" 2>>\"$2\""]).arg(launcher).args([&program, &log]);
    assert_eq!(shell.status().unwrap().code(), Some(7));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "");
}
