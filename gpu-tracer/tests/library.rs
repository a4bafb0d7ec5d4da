//! The library's file, as the loader reads it.

mod support;

use object::elf::{DF_1_NODELETE, DT_FLAGS_1, FileHeader64, PT_DYNAMIC};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use support::tracer;

#[test]
fn the_loader_never_unloads_it() {
    let data = std::fs::read(tracer()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*data).unwrap();
    let dynamic = segments.iter().find(|it| it.p_type(endian) == PT_DYNAMIC).expect("a library has one");
    let entries: &[elf::Dyn64<Endianness>] = dynamic.dynamic(endian, &*data).unwrap().unwrap();
    let flags = entries.iter().find(|it| it.d_tag(endian) == u64::from(DT_FLAGS_1));
    assert!(flags.is_some_and(|it| it.d_val(endian) & u64::from(DF_1_NODELETE) != 0));
}
