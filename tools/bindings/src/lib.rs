//! Structures and constants of C headers, as Rust: those of the GPU tracer's own headers, and of
//! NVIDIA's Sanitizer, which no crate has.
//!
//! The results are checked in, so that mpisee builds without libclang and without CUDA.

use anyhow::{Context, Result, anyhow, ensure};
use bindgen::callbacks::{
    DeriveTrait, EnumVariantCustomBehavior, EnumVariantValue, ImplementsTrait, ParseCallbacks,
};
use bindgen::{Builder, EnumVariation, Formatter, RustEdition, RustTarget};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A generated file.
pub struct Bindings {
    /// Its path below the root of the checkout.
    pub file: &'static str,
    /// Its content.
    pub text: String,
}

/// Loads libclang, which reads the headers; the error says that there is none.
pub fn find_libclang() -> Result<()> {
    clang_sys::load().map_err(|why| {
        anyhow!("libclang is not found: install it (on Debian libclang-dev), or name its folder in LIBCLANG_PATH: {why}")
    })
}

/// The bindings of the GPU tracer's own headers, which it shares with code on the GPU and with
/// NVBit's part.
pub fn own(root: &Path) -> Result<[Bindings; 2]> {
    let own = |header: &str| {
        let builder = builder("cargo xtask generate", header).header(text(&root.join(header))?);
        // The headers' comments are ordinary ones, which are the documentation of what is
        // generated.
        anyhow::Ok(builder.clang_arg("-fparse-all-comments"))
    };
    let core = own("gpu-tracer/device/core.h")?
        .allowlist_type("mp_(range|counter|table|window|launch|record|records)")
        .allowlist_var("MP_(BULK|KERNEL_BITS|WINDOW_SHIFT)")
        .derive_debug(true)
        .derive_default(true)
        .derive_eq(true);
    let layer = own("gpu-tracer/nvbit/layer.h")?
        .allowlist_type("mpisee_nvbit(_call|_launch|_events)?")
        .allowlist_var("MPISEE_NVBIT_LAYER");
    Ok([
        Bindings { file: "gpu-tracer/src/generated/core.rs", text: generated(root, core)? },
        Bindings { file: "gpu-tracer/src/generated/layer.rs", text: generated(root, layer)? },
    ])
}

/// The constants of the Sanitizer that the tracer uses. The enumerations have some thousand.
const SANITIZER_CONSTANTS: [&str; 50] = [
    "CU_GRAPH_NODE_TYPE_KERNEL",
    "SANITIZER_API_EXIT",
    "SANITIZER_CBID_DRIVER_API_cuIpcCloseMemHandle",
    "SANITIZER_CBID_DRIVER_API_cuIpcGetMemHandle",
    "SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle",
    "SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle_v2",
    "SANITIZER_CBID_DRIVER_API_cuMemCreate",
    "SANITIZER_CBID_DRIVER_API_cuMemExportToShareableHandle",
    "SANITIZER_CBID_DRIVER_API_cuMemHostRegister",
    "SANITIZER_CBID_DRIVER_API_cuMemHostRegister_v2",
    "SANITIZER_CBID_DRIVER_API_cuMemHostUnregister",
    "SANITIZER_CBID_DRIVER_API_cuMemImportFromShareableHandle",
    "SANITIZER_CBID_DRIVER_API_cuMemMap",
    "SANITIZER_CBID_DRIVER_API_cuMemPoolExportPointer",
    "SANITIZER_CBID_DRIVER_API_cuMemPoolImportPointer",
    "SANITIZER_CBID_DRIVER_API_cuMemRetainAllocationHandle",
    "SANITIZER_CBID_DRIVER_API_cuMemUnmap",
    "SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATING",
    "SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN",
    "SANITIZER_CBID_LAUNCH_BEGIN",
    "SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED",
    "SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_STARTING",
    "SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING",
    "SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC",
    "SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE",
    "SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC",
    "SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE",
    "SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC",
    "SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC",
    "SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER",
    "SANITIZER_CBID_RESOURCE_MODULE_LOADED",
    "SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING",
    "SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING",
    "SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED",
    "SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED",
    "SANITIZER_CB_DOMAIN_DRIVER_API",
    "SANITIZER_CB_DOMAIN_GRAPHS",
    "SANITIZER_CB_DOMAIN_LAUNCH",
    "SANITIZER_CB_DOMAIN_RESOURCE",
    "SANITIZER_CB_DOMAIN_SYNCHRONIZE",
    "SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED",
    "SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL",
    "SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL",
    "SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS",
    "SANITIZER_INSTRUCTION_MEMCPY_ASYNC",
    "SANITIZER_MEMORY_FLAG_CG_RUNTIME",
    "SANITIZER_MEMORY_FLAG_CNP",
    "SANITIZER_MEMORY_FLAG_HOST_PINNED",
    "SANITIZER_MEMORY_FLAG_MANAGED",
    "SANITIZER_MEMORY_FLAG_PEER",
];

/// Fields that headers of CUDA 13.1 and later have one pointer further on, with the green context
/// before them. The tracer reads them in either place (`behind_context` in
/// gpu-tracer/src/backends/sanitizer), by the Sanitizer that is loaded.
const BEHIND_GREEN_CONTEXT: [&str; 3] = [
    "Sanitizer_ResourceContextData::device",
    "Sanitizer_ResourceStreamData::stream",
    "Sanitizer_ResourceStreamData::hStream",
];

/// The bindings of the Sanitizer's headers, which are in these folders together with `cuda.h`.
pub fn sanitizer(root: &Path, folders: &[PathBuf]) -> Result<Bindings> {
    const HANDLES: [&str; 9] = [
        "CUcontext",
        "CUdevice",
        "CUfunction",
        "CUgraphExec",
        "CUgraphNode",
        "CUlibrary",
        "CUmemoryPool",
        "CUmodule",
        "CUstream",
    ];
    let builder = builder("cargo xtask gpu --bindings", "sanitizer.h of CUDA 13.0")
        .header_contents("of_sanitizer.h", "#include <sanitizer.h>\n")
        .allowlist_type("Sanitizer_(Callback|Synchronize|Launch|GraphNodeLaunch)Data")
        .allowlist_type("Sanitizer_Resource(Context|Stream|Module|Memory)Data")
        .allowlist_type("Sanitizer_(CallbackDomain|CallbackId(Resource|Launch|Graphs)|CallackIdSync)")
        .allowlist_type("Sanitizer_(ResourceMemoryFlags|InstructionId)|SANITIZER_CBID_DRIVER_API_enum")
        .blocklist_type(HANDLES.join("|"))
        .blocklist_type("CU(device_v1|.*_st)")
        .raw_line(format!("use cudarc::driver::sys::{{{}}};", HANDLES.join(", ")))
        // The text of these comments is NVIDIA's.
        .generate_comments(false)
        .parse_callbacks(Box::new(OnlyUsed));
    let builder = folders.iter().try_fold(builder, |builder, folder| {
        anyhow::Ok(builder.clang_arg("-isystem").clang_arg(text(folder)?))
    })?;
    Ok(Bindings { file: "gpu-tracer/src/generated/sanitizer.rs", text: generated(root, builder)? })
}

/// Leaves out what cudarc has, and constants of enumerations that the tracer does not use.
#[derive(Debug)]
struct OnlyUsed;

impl ParseCallbacks for OnlyUsed {
    fn enum_variant_behavior(
        &self,
        _: Option<&str>,
        name: &str,
        _: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        (!SANITIZER_CONSTANTS.contains(&name)).then_some(EnumVariantCustomBehavior::Hide)
    }

    /// Handles are pointers and numbers, which a union may have.
    fn blocklisted_type_implements_trait(&self, _: &str, derived: DeriveTrait) -> Option<ImplementsTrait> {
        (derived == DeriveTrait::Copy).then_some(ImplementsTrait::Yes)
    }
}

/// The options of all bindings. Enumerations are constants: what another version of a library
/// passes may be none of those that the header has, and would be no value of an `enum` of Rust.
fn builder(command: &str, header: &str) -> Builder {
    const ALLOW: &str =
        "#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]";
    bindgen::builder()
        .disable_header_comment()
        .raw_line(format!("// Generated by `{command}` from {header}. Do not edit.\n\n{ALLOW}\n"))
        .rust_target(RustTarget::stable(88, 0).unwrap_or_default())
        .rust_edition(RustEdition::Edition2024)
        .formatter(Formatter::None)
        .ctypes_prefix("::std::ffi")
        .derive_debug(false)
        .default_enum_style(EnumVariation::Consts)
        .prepend_enum_name(false)
}

/// The bindings as `cargo fmt` would have them; bindgen itself does not format lines that it is
/// given.
fn generated(root: &Path, builder: Builder) -> Result<String> {
    let text = builder.generate()?.to_string();
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting rustfmt")?;
    child.stdin.take().context("stdin is a pipe")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// The constants, and offsets of fields, of `expected` that `found` has not so. What `found` has
/// besides, as structures grow at their end, is no difference; nor are fields behind a green
/// context, if all of them are there.
pub fn differences(expected: &str, found: &str) -> Vec<String> {
    let has_green_contexts = has_green_contexts(expected, found);
    let found: BTreeSet<String> = facts(found).collect();
    let is_there =
        |fact: &String| found.contains(fact) || has_green_contexts && behind_green_context(fact).is_some();
    facts(expected).filter(|fact| !is_there(fact)).collect()
}

/// True if `found` has all the fields of [`BEHIND_GREEN_CONTEXT`] that `expected` has, each one
/// pointer further on.
pub fn has_green_contexts(expected: &str, found: &str) -> bool {
    let found: BTreeSet<String> = facts(found).collect();
    let mut moved = facts(expected).filter_map(|fact| behind_green_context(&fact)).peekable();
    moved.peek().is_some() && moved.all(|fact| found.contains(&fact))
}

/// The offset of a field of [`BEHIND_GREEN_CONTEXT`] with a green context before it; none for all
/// else.
fn behind_green_context(fact: &str) -> Option<String> {
    let field = fact.strip_prefix("[\"Offset of field: ")?.split('"').next()?;
    let (before, offset) = fact.rsplit_once(" - ")?;
    let offset: usize = offset.strip_suffix("usize]")?.parse().ok()?;
    BEHIND_GREEN_CONTEXT.contains(&field).then(|| format!("{before} - {}usize]", offset + size_of::<usize>()))
}

/// The constants and offsets of a generated text, which may break its lines anywhere.
fn facts(text: &str) -> impl Iterator<Item = String> {
    let statements =
        text.split(';').map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter_map(|statement| {
        let begin = ["[\"Offset of field", "pub const "].into_iter().find_map(|it| statement.find(it))?;
        Some(statement[begin..].to_owned())
    })
}
