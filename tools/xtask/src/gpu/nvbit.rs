//! Builds the backend that uses NVBit, `libmpisee_gpu_nvbit.so`, with the NVBit that NVBIT_HOME
//! names. Nothing of NVBit is kept here.

use super::{Toolkit, is_newer, succeed};
use crate::root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it, unless that was done; none, with a sentence, where NVBIT_HOME is not set.
pub fn build(toolkit: &Toolkit) -> Result<Option<PathBuf>> {
    let Some(home) = std::env::var_os("NVBIT_HOME").filter(|it| !it.is_empty()).map(PathBuf::from) else {
        eprintln!("NVBIT_HOME is not set, so the GPU tracer is built without its backend that uses NVBit");
        return Ok(None);
    };
    let core = [home.join("core"), home.clone()].into_iter().find(|it| it.join("libnvbit.a").is_file());
    let Some(core) = core else {
        bail!(
            "NVBIT_HOME is {}, but there is no core/libnvbit.a in it: unpack a release of NVBit there",
            home.display()
        );
    };
    let folder = root().join("target/gpu/nvbit");
    let library = folder.join("libmpisee_gpu_nvbit.so");
    let tracer = root().join("gpu-tracer");
    let sources = ["nvbit/tool.cpp", "nvbit/layer.h", "nvbit/hooks.cu", "device/nvbit.cu", "device/core.h"]
        .map(|it| tracer.join(it));
    let (made_with, with) =
        (folder.join("made-with"), format!("{} {}", toolkit.nvcc.display(), core.display()));
    let archive = [core.join("libnvbit.a")];
    if fs::read_to_string(&made_with).is_ok_and(|it| it == with)
        && is_newer(&library, &sources)
        && is_newer(&library, &archive)
    {
        return Ok(Some(library));
    }
    eprintln!("building the backend that uses NVBit, with {}", core.display());
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    compile(toolkit, &core, &tracer, &folder).with_context(|| {
        format!("the NVBit in {} cannot be used; 1.7.7 or later is needed", core.display())
    })?;
    link(toolkit, &core, &folder, &library)?;
    fs::write(&made_with, with)?;
    Ok(Some(library))
}

fn compile(toolkit: &Toolkit, core: &Path, tracer: &Path, folder: &Path) -> Result<()> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let include = format!("-I{}", tracer.join("nvbit").display());
    let mut host = Command::new(compiler);
    host.args(["-std=c++17", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", &include]);
    succeed(
        host.arg("-isystem")
            .arg(core)
            .arg(tracer.join("nvbit/tool.cpp"))
            .arg("-o")
            .arg(folder.join("tool.o")),
    )?;
    // Inserted functions are compiled as a patch; NVBit's own functions on the GPU are not.
    let inserted = ["-Xptxas", "-astoolspatch", "--keep-device-functions"];
    let of_nvbit = ["-dc", "-Xptxas", "-cloning=no"];
    for (source, object, how) in
        [("device/nvbit.cu", "device.o", inserted), ("nvbit/hooks.cu", "hooks.o", of_nvbit)]
    {
        let mut nvcc = Command::new(&toolkit.nvcc);
        nvcc.args(how).args(["-O3", "-Xcompiler", "-fPIC", "--threads", "0", "-c"]).args(toolkit.targets()?);
        nvcc.arg(format!("-I{}", core.display())).arg(tracer.join(source));
        succeed(nvcc.arg("-o").arg(folder.join(object)))?;
    }
    Ok(())
}

/// The driver is on the machines that have a GPU alone: what stands for it here has its name and no
/// functions.
fn link(toolkit: &Toolkit, core: &Path, folder: &Path, library: &Path) -> Result<()> {
    let (empty, driver) = (folder.join("empty.c"), folder.join("libcuda.so"));
    fs::write(&empty, "")?;
    let name = "-Wl,-soname,libcuda.so.1";
    succeed(Command::new("cc").args(["-shared", name, "-o"]).arg(&driver).arg(&empty))?;
    let runtime = toolkit.nvcc.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut nvcc = Command::new(&toolkit.nvcc);
    nvcc.arg("-shared").args(toolkit.targets()?);
    nvcc.args(["tool.o", "device.o", "hooks.o"].map(|it| folder.join(it)));
    // The linker would leave out objects without a symbol that is needed.
    let driver = format!("--no-as-needed,{},--as-needed", driver.display());
    nvcc.arg(core.join("libnvbit.a"))
        .arg("-Xlinker")
        .arg(driver)
        // The tracer keeps addresses of its functions.
        .args(["-Xlinker", "-z,nodelete"])
        .arg(format!("-L{}", runtime.join("lib").display()));
    succeed(nvcc.arg("-o").arg(library))
}
