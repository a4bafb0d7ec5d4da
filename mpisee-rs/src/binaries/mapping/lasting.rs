//! The objects that stay where they are as long as the process runs: the program, the library that
//! counts its calls, and the libraries that these need. The loader maps them before the program
//! begins, and unloads none of them, whatever the program closes.

use super::{LinkMap, at, link_map, program_start, read_memory, read_text};
use std::sync::OnceLock;

/// Objects that are looked through at most.
const MOST_OBJECTS: usize = 1 << 12;
/// Entries of a dynamic section that are read at most.
const MOST_ENTRIES: usize = 1 << 10;

/// An object in the loader's list.
struct Listed {
    /// The address of its description.
    description: usize,
    /// The names by which others need it: its own, and that of its file.
    names: [Vec<u8>; 2],
    needs: Vec<Vec<u8>>,
}

/// The addresses of their descriptions, in ascending order; those of the program and of this
/// library alone if the list cannot be read.
pub fn lasting() -> &'static [usize] {
    static LASTING: OnceLock<Vec<usize>> = OnceLock::new();
    LASTING.get_or_init(|| {
        let own = at(lasting as *const () as usize).map_or(0, |mapping| mapping.link_map);
        let mut found = reached(&listed(program()), &[program(), own]);
        found.retain(|&description| description != 0);
        found.sort_unstable();
        found
    })
}

/// The address of the program's description; 0 if it is not found.
pub fn program() -> usize {
    static PROGRAM: OnceLock<usize> = OnceLock::new();
    *PROGRAM.get_or_init(|| at(program_start()).map_or(0, |mapping| mapping.link_map))
}

/// The descriptions that are reached from these by what each object needs. Of several objects of
/// one name the loader takes the first one.
fn reached(all: &[Listed], roots: &[usize]) -> Vec<usize> {
    let mut found = roots.to_vec();
    let mut next = 0;
    while let Some(&description) = found.get(next) {
        next += 1;
        let Some(object) = all.iter().find(|object| object.description == description) else { continue };
        for name in &object.needs {
            let needed = all.iter().find(|object| object.names.contains(name));
            if let Some(needed) = needed.filter(|needed| !found.contains(&needed.description)) {
                found.push(needed.description);
            }
        }
    }
    found
}

/// The loader's list, from the program on.
fn listed(first: usize) -> Vec<Listed> {
    let mut all = Vec::new();
    let mut description = first;
    while description != 0 && all.len() < MOST_OBJECTS {
        let Some(map) = link_map(description) else { break };
        let next = map.next;
        all.push(Listed::from_map(description, &map));
        description = next;
    }
    all
}

impl Listed {
    fn from_map(description: usize, map: &LinkMap) -> Listed {
        let mut entries = Vec::new();
        for place in 0..MOST_ENTRIES {
            let Some([tag, value]) = pair(map.dynamic.wrapping_add(place * size_of::<[usize; 2]>())) else {
                break;
            };
            if tag == 0 {
                break;
            }
            entries.push([tag, value]);
        }
        let of =
            |wanted: usize| entries.iter().filter(move |[tag, _]| *tag == wanted).map(|[_, value]| *value);
        // The loader has added where the object is, unless it cannot write there.
        let strings = of(DT_STRTAB).next().unwrap_or(0);
        let strings = if strings < map.bias { strings.wrapping_add(map.bias) } else { strings };
        let string = |at: usize| read_text(strings.wrapping_add(at));
        let path = read_text(map.name);
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        let own = of(DT_SONAME).next().map(string).unwrap_or_default();
        Listed { description, names: [own, file], needs: of(DT_NEEDED).map(string).collect() }
    }
}

/// Tags of entries (System V gABI, Dynamic Section).
const DT_NEEDED: usize = 1;
const DT_STRTAB: usize = 5;
const DT_SONAME: usize = 14;

fn pair(address: usize) -> Option<[usize; 2]> {
    let mut bytes = [0; size_of::<[usize; 2]>()];
    if read_memory(address, &mut bytes) != bytes.len() {
        return None;
    }
    let (first, second) = bytes.split_first_chunk()?;
    Some([usize::from_ne_bytes(*first), usize::from_ne_bytes(second.try_into().ok()?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_the_name_of_its_file() {
        let all = listed(program());
        let file_of_c_library = mpisee_in_process::symbols::find_object(|object| {
            object.file_name().starts_with(b"libc.").then(|| object.file_name().to_vec())
        });
        let file = file_of_c_library.expect("it is loaded");
        let of_c_library = all.iter().find(|object| object.names[0] == b"libc.so.6");
        assert_eq!(of_c_library.map(|object| &object.names[1]), Some(&file));
    }

    #[test]
    fn the_c_library_stays_and_what_is_needed_by_nobody_does_not() {
        let address = libc::dl_iterate_phdr as *const () as usize;
        let c_library = at(address).expect("it is mapped").link_map;
        assert!(lasting().contains(&c_library) && lasting().contains(&program()));
        let object = |description, own: &str, needs: &[&str]| Listed {
            description,
            names: [own, ""].map(|name| name.as_bytes().to_vec()),
            needs: needs.iter().map(|name| name.as_bytes().to_vec()).collect(),
        };
        let all = [
            object(1, "app", &["libmpi.so", "libc.so"]),
            object(2, "libmpi.so", &["libm.so", "libmpi.so"]),
            object(3, "libc.so", &[]),
            object(4, "libplugin.so", &["libm.so", "libown.so"]),
            object(5, "libm.so", &["libc.so"]),
            object(6, "libm.so", &[]),
            object(7, "libown.so", &[]),
        ];
        let mut found = reached(&all, &[1]);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3, 5]);
    }
}
