//! The whole tracer in a program, with a fake driver, Sanitizer and NVBit.

use super::{BESIDE, build, build_cpp, build_driver, tracer};
use mpisee_collect::gpu::{GpuPart, join, parts};
use mpisee_profile::gpu::GpuFile;
use mpisee_profile::rows::GpuRow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Backend that gets the tracer into kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The Sanitizer API, of the fake driver.
    Sanitizer,
    /// NVBit, `tests/fake/nvbit.cpp`.
    Nvbit,
}

/// Both, for tests that hold for either.
pub const BOTH: [Backend; 2] = [Backend::Sanitizer, Backend::Nvbit];

/// A folder with what a run needs, and what it leaves.
pub struct Stage {
    folder: tempfile::TempDir,
    pub backend: Backend,
}

impl Stage {
    /// One with `tests/fake/program.c`.
    pub fn new(backend: Backend) -> Stage {
        let stage = Stage::without_program(backend);
        stage.build(&["tests/fake/program.c"], "program", &[]);
        stage
    }

    /// One in which others run.
    pub fn without_program(backend: Backend) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage { folder, backend };
        fs::copy(tracer(), stage.path("libmpisee_gpu.so")).unwrap();
        fs::write(stage.path("patches.fatbin"), "").unwrap();
        fs::create_dir(stage.path("segments")).unwrap();
        build_driver(&stage.path("libcuda.so.1"), &[]);
        if backend == Backend::Nvbit {
            let sources = ["nvbit/tool.cpp", "tests/fake/nvbit.cpp"];
            build_cpp(&sources, &stage.path("libmpisee_gpu_nvbit.so"), &[&stage.driver(), BESIDE]);
        }
        stage
    }

    /// Compiles C with the driver.
    pub fn build(&self, sources: &[&str], to: &str, options: &[&str]) {
        let driver = self.driver();
        let options: Vec<&str> = [&driver, BESIDE].into_iter().chain(options.iter().copied()).collect();
        build(sources, &self.path(to), &options);
    }

    fn driver(&self) -> String {
        self.path("libcuda.so.1").display().to_string()
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `tests/fake/program.c`, which ends as its argument says.
    pub fn run(&self, end: &str, variables: &[(&str, &str)]) -> Output {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/lines.cubin");
        let mut command = self.command(&self.path("program"));
        command.arg(module).arg(end).envs(variables.iter().copied()).output().unwrap()
    }

    /// A program that has the tracer.
    pub fn command(&self, program: &Path) -> Command {
        let injected = match self.backend {
            Backend::Sanitizer => "libmpisee_gpu.so",
            Backend::Nvbit => "libmpisee_gpu_nvbit.so",
        };
        let mut command = Command::new(program);
        command
            .env("MPISEE_GPU", "on")
            .env("MPISEE_SEGMENTS", self.path("segments"))
            .env("MPISEE_GPU_SANITIZER", self.path("libcuda.so.1"))
            .env("CUDA_INJECTION64_PATH", self.path(injected));
        command
    }

    /// Rows of the run, as if it had been rank 5.
    pub fn rows(&self) -> (Vec<GpuRow>, Vec<String>) {
        join(self.parts())
    }

    /// The same before owners are known.
    pub fn parts(&self) -> Vec<GpuPart> {
        let files: Vec<PathBuf> = self.left();
        assert_eq!(files.len(), 1, "{files:?}");
        parts(&GpuFile::read(&files[0]).unwrap().unwrap(), 5)
    }

    /// The files that the run left.
    pub fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("segments")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}
