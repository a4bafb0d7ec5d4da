//! Builds mpisee. What is done to the project in more than one step, or once per MPI, is done
//! through here.

use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::build::{MpiSelection, Programs};
use xtask::{build, changed, dist, find_root, generate, gpu, package, release};

/// Generate, build and install mpisee.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Write the generated sources from tools/xtask/spec, and from the GPU tracer's C headers
    Generate {
        /// Fail if that changes anything
        #[arg(long)]
        check: bool,
    },
    /// Build libmpisee.so for every MPI on this machine
    Build(MpiSelection),
    /// Build everything and lay out a relocatable installation in target/dist
    Dist {
        #[command(flatten)]
        wanted: MpiSelection,
        /// Get CUDA's compiler, for what of the GPU tracer runs on a GPU, from Python's package
        /// index, 110 MB, if there is none
        #[arg(long)]
        fetch: bool,
    },
    /// Build what a first look takes, in target/try: the libraries, and mpisee and mpisee-through
    /// without optimisation
    Try {
        /// Build for the MPI of this compiler wrapper, rather than for every MPI in PATH
        /// (repeatable)
        #[arg(long, value_name = "PATH")]
        mpicc: Vec<PathBuf>,
    },
    /// Build the GPU tracer; what of it runs on a GPU needs CUDA's compiler
    Gpu {
        /// Get the compiler from Python's package index, 110 MB, if there is none
        #[arg(long)]
        fetch: bool,
        /// Write the bindings of the Sanitizer's headers instead, which are those of CUDA 13.0
        #[arg(long)]
        bindings: bool,
    },
    /// Copy what `dist` made
    Install {
        /// Where to: DIR/bin, DIR/lib, DIR/include, DIR/share
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Build an installation for other machines, too
    #[command(subcommand)]
    Package(Package),
    /// Check this checkout and pack a release in target/release-VERSION: packages, sources,
    /// checksums, list of crates
    Release {
        /// As for the wheel
        #[arg(long)]
        fetch: bool,
    },
    /// Run clippy over everything, the library once per MPI
    Clippy(MpiSelection),
    /// Run the unit tests of the library, once per MPI
    Test(MpiSelection),
    /// Build libmpisee.so with ThreadSanitizer in it, for scripts/races
    Sanitize(MpiSelection),
    /// Print what changes can affect, for `scripts/test --changed`: packages to test, subjects of
    /// the end-to-end tests
    Changed {
        /// The revision to compare with (default: where the branch left its upstream)
        #[arg(long, value_name = "REVISION")]
        base: Option<String>,
        /// Run the tests of these packages instead, but for those that need an installation
        #[arg(long)]
        test: bool,
    },
    /// Count the instructions, cache lines and pages that the library uses per call, and fail if
    /// they grew
    #[cfg(target_arch = "x86_64")]
    Footprint(xtask::footprint::FootprintArgs),
}

/// The kinds of package.
#[derive(clap::Subcommand)]
enum Package {
    /// Build a wheel for pip in target/wheels, with a library for every MPI interface; needs cc,
    /// libclang and Python's package index
    Wheel {
        /// Install the wheel beside each MPI of the index, profile a program there, and print a
        /// table
        #[arg(long)]
        check: bool,
        /// Get CUDA's compiler, for what of the GPU tracer runs on a GPU, from Python's package
        /// index, 110 MB, if there is none
        #[arg(long)]
        fetch: bool,
    },
    /// Pack target/package/mpisee-VERSION-x86_64.tar.gz, which has module files and can be unpacked
    /// anywhere
    Tarball {
        /// As for the wheel
        #[arg(long)]
        fetch: bool,
    },
    /// Pack target/package/mpisee_VERSION_amd64.deb, for Debian's package manager
    Deb {
        /// As for the wheel
        #[arg(long)]
        fetch: bool,
    },
}

fn main() -> ExitCode {
    match find_root().and_then(|()| run(Task::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Generate { check } => generate::generate(check),
        Task::Build(wanted) => build::flavours(&wanted, |built| {
            built.iter().for_each(|it| println!("{}: {}", it.flavour.name, it.library.display()));
            Ok(())
        }),
        Task::Dist { wanted, fetch } => dist::dist(&wanted, fetch),
        Task::Try { mpicc } => dist::to_be_tried(&MpiSelection::library(mpicc)),
        Task::Release { fetch } => release::release(fetch),
        Task::Gpu { fetch, bindings: true } => gpu::write_bindings(fetch),
        Task::Gpu { fetch, bindings: false } => {
            gpu::build(&Programs::build(false, false, None)?, fetch).map(|tracer| {
                tracer.files().for_each(|it| println!("{}", it.display()));
            })
        }
        Task::Install { prefix } => dist::install(&prefix),
        Task::Package(Package::Wheel { check, fetch }) => package::wheel(check, fetch),
        Task::Package(Package::Tarball { fetch }) => package::tarball(fetch),
        Task::Package(Package::Deb { fetch }) => package::deb(fetch),
        Task::Clippy(wanted) => build::clippy(&wanted),
        Task::Test(wanted) => build::test(&wanted),
        Task::Sanitize(wanted) => build::sanitized(&wanted, |flavour, library| {
            println!("{} {} {}", flavour.name, flavour.mpicc.display(), library.display());
        }),
        Task::Changed { base, test } => {
            let affected = changed::affected(base.as_deref())?;
            if test {
                return changed::test(&affected);
            }
            let list = |names: &std::collections::BTreeSet<String>| {
                names.iter().cloned().collect::<Vec<_>>().join(" ")
            };
            println!("packages={}", list(&affected.packages));
            println!("subjects={}", list(&affected.subjects));
            Ok(())
        }
        #[cfg(target_arch = "x86_64")]
        Task::Footprint(wish) => xtask::footprint::footprint(&wish),
    }
}
