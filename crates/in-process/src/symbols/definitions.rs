//! Which symbols the loaded libraries define, by the hash tables from which the loader finds them,
//! so that none of them has to be opened to see that it lacks one: each is looked for there among
//! all by its name.

use crate::symbols::Address;
use crate::symbols::loaded::{LoadedObject, find_object};
use std::ffi::{CStr, c_void};
use std::mem::size_of;
use std::ops::Range;

/// Tags of the dynamic section.
const END: u64 = 0;
const SYSV_HASH: u64 = 4;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;
const VERSIONS: u64 = 0x6fff_fff0;

/// A symbol in the table: its size, and where in it are its name, type, section and value.
const SYMBOL_BYTES: usize = 24;
const NAME_AT: usize = 0;
const TYPE_AT: usize = 4;
const SECTION_AT: usize = 6;
const VALUE_AT: usize = 8;
/// The type of a function.
const FUNCTION: u8 = 2;
/// In a symbol's version: it is not the one that a program gets which names none.
const HIDDEN: u16 = 0x8000;

/// Returns whether any library may define a symbol, apart from the one around the address `ours`.
pub fn may_be_defined(name: &CStr, ours: usize) -> bool {
    let wanted = Wanted::new(name);
    // The program itself has an empty name, and is in the search order.
    find_object(|object| {
        let defines = !object.name().is_empty()
            && !segments(object).any(|segment| segment.contains(&ours))
            && wanted.may_be_in(object);
        defines.then_some(())
    })
    .is_some()
}

impl LoadedObject<'_> {
    /// A function that the object defines, as a program gets it that names no version.
    ///
    /// Neither `dlopen` nor `dlsym` is called: a thread may have the lock that they take for as
    /// long as a constructor waits for another thread.
    pub fn function(self, name: &CStr) -> Option<Address> {
        Wanted::new(name).function_in(self)
    }
}

/// A symbol to be looked for.
struct Wanted<'a> {
    name: &'a CStr,
    gnu_hash: u32,
    sysv_hash: u32,
}

impl Wanted<'_> {
    fn new(name: &CStr) -> Wanted<'_> {
        let mut sysv_hash = 0u32;
        for &byte in name.to_bytes() {
            sysv_hash = (sysv_hash << 4).wrapping_add(u32::from(byte));
            let high = sysv_hash & 0xf000_0000;
            sysv_hash = (sysv_hash ^ high >> 24) & !high;
        }
        let step = |hash: u32, &byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(byte));
        Wanted { name, gnu_hash: name.to_bytes().iter().fold(5381, step), sysv_hash }
    }

    /// Returns whether an object may define it; true if it has no table that can be read.
    fn may_be_in(&self, object: LoadedObject) -> bool {
        let tables = Tables::from_object(object);
        let answer = match tables.gnu_hash {
            Some(_) => self.may_be_in_gnu(&tables),
            None => self.is_in_sysv(&tables),
        };
        answer.unwrap_or(true)
    }

    /// By the table that the GNU tools make: true if there is a symbol with this hash.
    fn may_be_in_gnu(&self, tables: &Tables) -> Option<bool> {
        Some(self.find_in_gnu(tables, |_| Some(true))?.is_some())
    }

    /// The first symbol with this hash that `is_it`, by the table that the GNU tools make; `None`
    /// if that cannot be read.
    fn find_in_gnu(
        &self,
        tables: &Tables,
        mut is_it: impl FnMut(u32) -> Option<bool>,
    ) -> Option<Option<u32>> {
        let (at, hash) = (tables.gnu_hash?, self.gnu_hash);
        let [buckets, first_symbol, words, shift] = tables.read::<[u32; 4]>(at)?;
        // A filter of all symbols with two bits of each.
        let filter = at + size_of::<[u32; 4]>();
        let word = tables.item::<u64>(filter, (hash / u64::BITS).checked_rem(words)?)?;
        let bit = |hash: u32| word >> (hash % u64::BITS) & 1 != 0;
        if !bit(hash) || !bit(hash.checked_shr(shift).unwrap_or(0)) {
            return Some(None);
        }
        let table = filter + words as usize * size_of::<u64>();
        let mut symbol = tables.item::<u32>(table, hash.checked_rem(buckets)?)?;
        if symbol == 0 {
            return Some(None);
        }
        // The hashes of a bucket's symbols, of which the lowest bit says that it is the last one.
        let hashes = table + buckets as usize * size_of::<u32>();
        loop {
            let there = tables.item::<u32>(hashes, symbol.checked_sub(first_symbol)?)?;
            if (there | 1) == (hash | 1) && is_it(symbol)? {
                return Some(Some(symbol));
            }
            if there & 1 != 0 {
                return Some(None);
            }
            symbol = symbol.checked_add(1)?;
        }
    }

    /// By the table of the ELF standard.
    fn is_in_sysv(&self, tables: &Tables) -> Option<bool> {
        Some(self.find_in_sysv(tables, |symbol| self.is(tables, symbol))?.is_some())
    }

    /// The first symbol of the bucket that `is_it`, by the table of the ELF standard; `None` if
    /// that cannot be read.
    fn find_in_sysv(
        &self,
        tables: &Tables,
        mut is_it: impl FnMut(u32) -> Option<bool>,
    ) -> Option<Option<u32>> {
        let at = tables.sysv_hash?;
        let [buckets, symbols] = tables.read::<[u32; 2]>(at)?;
        let table = at + size_of::<[u32; 2]>();
        let next = table + buckets as usize * size_of::<u32>();
        let mut symbol = tables.item::<u32>(table, self.sysv_hash.checked_rem(buckets)?)?;
        for _ in 0..symbols {
            if symbol == 0 {
                return Some(None);
            }
            if is_it(symbol)? {
                return Some(Some(symbol));
            }
            symbol = tables.item::<u32>(next, symbol)?;
        }
        None
    }

    /// The function's address in an object that defines it.
    fn function_in(&self, object: LoadedObject) -> Option<Address> {
        let tables = Tables::from_object(object);
        let is_it = |symbol: u32| Some(self.is(&tables, symbol)? && tables.is_default(symbol)?);
        let symbol = match tables.gnu_hash {
            Some(_) => self.find_in_gnu(&tables, is_it),
            None => self.find_in_sysv(&tables, is_it),
        };
        let at = tables.symbol(symbol??)?;
        let is_function = tables.read::<u8>(at + TYPE_AT)? & 0xf == FUNCTION;
        let address = object.bias().wrapping_add(tables.read::<u64>(at + VALUE_AT)?) as usize;
        Address::new(std::ptr::with_exposed_provenance_mut::<c_void>(address)).filter(|_| is_function)
    }

    /// Returns whether a symbol of the table has this name, and is defined there.
    fn is(&self, tables: &Tables, symbol: u32) -> Option<bool> {
        let at = tables.symbol(symbol)?;
        let is_defined = tables.read::<u16>(at + SECTION_AT)? != 0;
        let name = tables.strings?.checked_add(tables.read::<u32>(at + NAME_AT)? as usize)?;
        for (place, &byte) in self.name.to_bytes_with_nul().iter().enumerate() {
            if tables.read::<u8>(name.checked_add(place)?)? != byte {
                return Some(false);
            }
        }
        Some(is_defined)
    }
}

/// The addresses of an object's tables.
struct Tables<'a> {
    object: LoadedObject<'a>,
    gnu_hash: Option<usize>,
    sysv_hash: Option<usize>,
    symbols: Option<usize>,
    strings: Option<usize>,
    versions: Option<usize>,
}

impl<'a> Tables<'a> {
    fn from_object(object: LoadedObject<'a>) -> Tables<'a> {
        let mut tables =
            Tables { object, gnu_hash: None, sysv_hash: None, symbols: None, strings: None, versions: None };
        let entries = object.headers().iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let (begin, bytes) = entries.map_or((0, 0), |header| {
            (object.bias().wrapping_add(header.p_vaddr) as usize, header.p_memsz as usize)
        });
        if !tables.have(begin, bytes) {
            return tables;
        }
        for at in (begin..).step_by(size_of::<[u64; 2]>()).take(bytes / size_of::<[u64; 2]>()) {
            // SAFETY: the whole section is in the object, see `have`.
            let [tag, value] = unsafe { read::<[u64; 2]>(at) };
            let place = match tag {
                END => break,
                GNU_HASH => &mut tables.gnu_hash,
                SYSV_HASH => &mut tables.sysv_hash,
                SYMBOLS => &mut tables.symbols,
                STRINGS => &mut tables.strings,
                VERSIONS => &mut tables.versions,
                _ => continue,
            };
            *place = address(object, value);
        }
        tables
    }

    /// Returns whether these bytes are in a segment that the loader has mapped to be read, and
    /// keeps while it shows the object.
    fn have(&self, at: usize, bytes: usize) -> bool {
        let end = at.checked_add(bytes);
        end.is_some_and(|end| segments(self.object).any(|segment| segment.start <= at && end <= segment.end))
    }

    /// The address of a symbol in the table.
    fn symbol(&self, symbol: u32) -> Option<usize> {
        self.symbols?.checked_add(symbol as usize * SYMBOL_BYTES)
    }

    /// Returns whether a symbol is the one that a program gets which names no version.
    fn is_default(&self, symbol: u32) -> Option<bool> {
        let Some(versions) = self.versions else { return Some(true) };
        Some(self.item::<u16>(versions, symbol)? & HIDDEN == 0)
    }

    /// The item of an array at `begin`.
    fn item<T: Plain>(&self, begin: usize, index: u32) -> Option<T> {
        self.read(begin.checked_add(index as usize * size_of::<T>())?)
    }

    /// The value at an address; `None` if it is not in the object.
    fn read<T: Plain>(&self, at: usize) -> Option<T> {
        // SAFETY: it is in the object, see `have`.
        self.have(at, size_of::<T>()).then(|| unsafe { read(at) })
    }
}

/// # Safety
/// The address is mapped, for as many bytes as the type has.
unsafe fn read<T: Plain>(at: usize) -> T {
    // SAFETY: the caller says that it is mapped; every pattern of bits is a value of the type.
    unsafe { std::ptr::with_exposed_provenance::<T>(at).read_unaligned() }
}

/// Numbers, for which every pattern of bits is valid.
trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The address of a table, which most C libraries put into the dynamic section when they load the
/// object: in others, and in what the kernel maps, it is that in the file.
fn address(object: LoadedObject, value: u64) -> Option<usize> {
    [value, value.wrapping_add(object.bias())]
        .map(|address| address as usize)
        .into_iter()
        .find(|address| segments(object).any(|segment| segment.contains(address)))
}

/// The addresses of what is mapped to be read.
fn segments(object: LoadedObject) -> impl Iterator<Item = Range<usize>> {
    let is_readable =
        |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0;
    object.headers().iter().filter(is_readable).map(move |header| {
        let begin = object.bias().wrapping_add(header.p_vaddr) as usize;
        begin..begin.saturating_add(header.p_memsz as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE_HAS_THIS: &CStr = c"mpisee_none_has_this";

    /// The answers of `look` on the objects whose names begin so.
    fn look<T>(begin: &[u8], mut look: impl FnMut(LoadedObject) -> T) -> Vec<T> {
        let mut answers = Vec::with_capacity(16);
        find_object::<(), _>(|object| {
            if object.file_name().starts_with(begin) && answers.len() < answers.capacity() {
                answers.push(look(object));
            }
            None
        });
        answers
    }

    #[test]
    fn libraries_define_what_their_tables_have() {
        let is_in = |begin: &[u8], name| look(begin, |object| Wanted::new(name).may_be_in(object));
        assert_eq!(is_in(b"libc.so", c"qsort"), [true]);
        for name in [NONE_HAS_THIS, c"", c"qsort_none"] {
            assert_eq!(is_in(b"libc.so", name), [false]);
        }
        let libc_at = crate::symbols::first(c"qsort").expect("the C library is loaded").addr().get();
        assert!(may_be_defined(c"qsort", 0));
        assert!(!may_be_defined(c"qsort", libc_at));
        assert!(!may_be_defined(NONE_HAS_THIS, 0));
    }

    #[test]
    fn functions_are_where_the_loader_finds_them() {
        // Of realpath there is an older version, which is hidden; memcpy's address comes from a
        // function that chooses one.
        let names = [c"qsort", c"realpath", c"memcpy", NONE_HAS_THIS];
        let found = look(b"libc.so", |object| names.map(|name| object.function(name)));
        let [qsort, realpath, chosen, none] = found[0];
        assert_eq!((qsort, realpath), (crate::symbols::first(c"qsort"), crate::symbols::first(c"realpath")));
        assert!(qsort.is_some() && none.is_none());
        assert!(chosen.is_none_or(|chosen| Some(chosen) == crate::symbols::first(c"memcpy")));
    }

    #[test]
    fn both_tables_agree() {
        // The C library has both on some systems; what the kernel maps has at least that of the
        // standard.
        for (begin, name) in [
            (&b"libc.so"[..], c"qsort"),
            (b"libm.so", c"cos"),
            (b"linux-vdso", c"__vdso_clock_gettime"),
            (b"linux-vdso", c"__kernel_clock_gettime"),
        ] {
            for wanted in [name, NONE_HAS_THIS].map(Wanted::new) {
                let answers = look(begin, |object| {
                    let tables = Tables::from_object(object);
                    (wanted.may_be_in_gnu(&tables), wanted.is_in_sysv(&tables))
                });
                for answer in answers {
                    assert!(!matches!(answer, (Some(gnu), Some(sysv)) if gnu != sysv), "{answer:?}");
                    assert!(answer.0.or(answer.1).is_some());
                }
            }
        }
    }
}
