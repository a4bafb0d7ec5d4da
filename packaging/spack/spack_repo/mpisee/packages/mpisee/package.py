"""Spack package of mpisee, for Spack 1.0 and later."""

from pathlib import Path

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Mpisee(Package):
    """Communication profiler for MPI programs. mpisee shows per communicator and rank what is
    communicated, how long it takes, and who waits for whom."""

    # No release is published. Spack clones the checkout that holds this file.
    git = str(Path(__file__).resolve().parents[6])

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("bench", default=True, description="Build mpisee-bench, the network benchmark")
    variant("serve", default=True, description="Build mpisee-serve, the web server")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    # bindgen loads libclang to read mpi.h.
    depends_on("llvm+clang", type="build")
    depends_on("mpi")

    conflicts("platform=darwin", msg="mpisee preloads a library by glibc's loader")
    conflicts("platform=windows", msg="mpisee preloads a library by glibc's loader")

    sanity_check_is_file = ["bin/mpisee", "bin/mpisee-through"]
    sanity_check_is_dir = ["lib/mpisee"]

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        libclang = find_libraries("libclang", self.spec["llvm"].prefix, recursive=True)
        if not libclang:
            raise InstallError("llvm has no libclang, which bindgen needs")
        env.set("LIBCLANG_PATH", libclang.directories[0])
        env.set("CARGO_BUILD_JOBS", str(make_jobs))

    def install(self, spec: Spec, prefix: Prefix) -> None:
        cargo = Executable(spec["rust"].prefix.bin.cargo)
        options = ["--mpicc", spec["mpi"].mpicc]
        if spec.satisfies("~bench"):
            options.append("--without-bench")
        if spec.satisfies("~serve"):
            options.append("--without-serve")
        cargo("xtask", "dist", *options)
        cargo("xtask", "install", "--prefix", prefix)

    def test_commands(self):
        """The commands start, and find the library of the MPI"""
        for command, option in [("mpisee", "--flavours"), ("mpisee-through", "--version")]:
            program = Executable(join_path(self.prefix.bin, command))
            print(program(option, output=str.split, error=str.split))
