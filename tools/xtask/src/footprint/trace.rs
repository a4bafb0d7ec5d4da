//! Traced instructions, and what of them is the library's.

use super::figures::Figure;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

/// Libraries that the profiler and MPI both call: what they do is done for the caller.
const SHARED: [&str; 6] = ["libc.so", "libm.so", "libgcc_s.so", "libpthread.so", "ld-linux", "[vdso]"];

/// An instruction, and the data that it uses.
#[derive(Debug)]
pub struct Instruction {
    /// Its own bytes.
    pub code: Span,
    /// The memory that it reads or writes.
    pub data: Vec<Span>,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The address of the first.
    pub begin: u64,
    /// Their number.
    pub bytes: u64,
}

impl Span {
    /// The lines or pages that it lies in.
    fn blocks(self, size: u64) -> impl Iterator<Item = u64> {
        self.begin / size..=(self.begin + self.bytes.max(1) - 1) / size
    }
}

/// The instructions between the two marks of an operation.
#[derive(Debug)]
pub struct Window {
    /// The number of the operation.
    pub operation: u64,
    /// The instructions, each as often as it was executed.
    pub instructions: Vec<Instruction>,
}

/// A mapping of the process.
struct Mapping {
    begin: u64,
    end: u64,
    file_offset: u64,
    name: String,
}

impl Mapping {
    /// Reads a line of /proc/self/maps.
    fn new(line: &str) -> Option<Mapping> {
        let mut columns = line.split_whitespace();
        let (begin, end) = columns.next()?.split_once('-')?;
        let file_offset = columns.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let name = columns.nth(2).unwrap_or("anonymous memory").to_owned();
        Some(Mapping { begin: number(begin)?, end: number(end)?, file_offset: number(file_offset)?, name })
    }

    fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    fn is_ours(&self) -> bool {
        self.file_name() == "libmpisee.so"
    }
}

/// A run of the program: its operations, their windows and the mappings of the process.
pub struct Recorded {
    operations: Vec<String>,
    windows: Vec<Window>,
    mappings: Vec<Mapping>,
}

/// The library's part of a window, and of that the part that is not MPI's, too.
struct Own<'w> {
    instructions: Vec<&'w Instruction>,
    code_lines: BTreeSet<u64>,
    data_lines: BTreeSet<u64>,
    pages: BTreeSet<u64>,
}

impl Own<'_> {
    fn figure(&self) -> Figure {
        Figure {
            instructions: self.instructions.len() as u64,
            code_lines: self.code_lines.len() as u64,
            data_lines: self.data_lines.len() as u64,
            pages: self.pages.len() as u64,
        }
    }
}

impl Recorded {
    /// Of what the program printed: `operation`, tab, its name, for each in the order of their
    /// numbers; `map`, tab, a line of /proc/self/maps.
    pub fn new(printed: &str, windows: Vec<Window>) -> Result<Recorded> {
        let of = |kind: &'static str| {
            printed.lines().filter_map(move |line| line.split_once('\t')).filter(move |(it, _)| *it == kind)
        };
        let operations = of("operation").map(|(_, name)| name.to_owned()).collect();
        let mappings: Vec<Mapping> = of("map").filter_map(|(_, line)| Mapping::new(line)).collect();
        ensure!(mappings.iter().any(Mapping::is_ours), "libmpisee.so is not in the program");
        ensure!(!windows.is_empty(), "the trace has no marked operation");
        Ok(Recorded { operations, windows, mappings })
    }

    /// The names of the operations.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().map(String::as_str)
    }

    /// The figures of each operation in which the library takes part.
    pub fn figures(&self) -> impl Iterator<Item = (String, Figure)> + '_ {
        self.operations().filter_map(|operation| {
            let figure = self.own(self.typical(operation)?).figure();
            (figure.instructions > 0).then(|| (operation.to_owned(), figure))
        })
    }

    /// An operation's typical window. The library does more in some: of five, two may be of a call
    /// that it measures.
    pub fn typical(&self, operation: &str) -> Option<&Window> {
        let mut windows: Vec<&Window> = self.windows_of(operation).collect();
        windows.sort_by_key(|window| self.own(window).figure().instructions);
        windows.get(windows.len() / 3).copied()
    }

    /// The library's instructions in each window of an operation.
    pub fn instructions(&self, operation: &str) -> Vec<u64> {
        self.windows_of(operation).map(|window| self.own(window).figure().instructions).collect()
    }

    fn windows_of(&self, operation: &str) -> impl Iterator<Item = &Window> {
        let number = self.operations().position(|it| it == operation).map(|it| it as u64);
        self.windows.iter().filter(move |it| Some(it.operation) == number)
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|it| (it.begin..it.end).contains(&address))
    }

    /// The library's part: its instructions, and those of the libraries that it calls, but for MPI.
    fn own<'w>(&self, window: &'w Window) -> Own<'w> {
        let mut is_ours = false;
        let (ours, others): (Vec<&Instruction>, Vec<&Instruction>) =
            window.instructions.iter().partition(|it| {
                if let Some(mapping) = self.mapping(it.code.begin)
                    && !SHARED.iter().any(|shared| mapping.file_name().starts_with(shared))
                {
                    is_ours = mapping.is_ours();
                }
                is_ours
            });
        let code = |of: &[&Instruction], size| -> BTreeSet<u64> {
            of.iter().flat_map(|it| it.code.blocks(size)).collect()
        };
        let data = |of: &[&Instruction], size| -> BTreeSet<u64> {
            of.iter().flat_map(|it| &it.data).flat_map(|span| span.blocks(size)).collect()
        };
        let pages = |of: &[&Instruction]| &code(of, PAGE_BYTES) | &data(of, PAGE_BYTES);
        Own {
            code_lines: &code(&ours, LINE_BYTES) - &code(&others, LINE_BYTES),
            data_lines: &data(&ours, LINE_BYTES) - &data(&others, LINE_BYTES),
            pages: &pages(&ours) - &pages(&others),
            instructions: ours,
        }
    }

    /// A sentence for each line that the library uses in a window.
    pub fn lines(&self, window: &Window, sources: &Sources) -> Vec<String> {
        let own = self.own(window);
        let mut code: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut data = code.clone();
        for instruction in &own.instructions {
            let source = sources.source(self, instruction.code.begin);
            for line in instruction.code.blocks(LINE_BYTES).filter(|it| own.code_lines.contains(it)) {
                code.entry(line).or_default().insert(source.clone());
            }
            for span in &instruction.data {
                for line in span.blocks(LINE_BYTES).filter(|it| own.data_lines.contains(it)) {
                    data.entry(line).or_default().insert(source.clone());
                }
            }
        }
        let listed = |kind: &str, lines: BTreeMap<u64, BTreeSet<String>>| -> Vec<String> {
            let listed = lines.into_iter().map(|(line, users)| {
                let users: Vec<String> = users.into_iter().collect();
                format!("{kind} {} by {}", self.place(line * LINE_BYTES, sources), users.join(", "))
            });
            listed.collect()
        };
        [listed("code", code), listed("data", data)].concat()
    }

    /// The mapping of an address, and where in it that is.
    fn place(&self, address: u64, sources: &Sources) -> String {
        let Some(mapping) = self.mapping(address) else { return format!("{address:#x}") };
        let name = if mapping.file_name().contains("segment") { "the segment" } else { mapping.file_name() };
        let symbol = if mapping.is_ours() { sources.symbol(address) } else { None };
        let at = address - mapping.begin + mapping.file_offset;
        format!("{name} {at:#x}{}", symbol.map(|it| format!(" ({it})")).unwrap_or_default())
    }
}

/// The source lines of the library's code.
pub struct Sources {
    loader: addr2line::Loader,
    base: u64,
}

impl Sources {
    /// Reads the library's debug information.
    pub fn from_recorded(recorded: &Recorded) -> Result<Sources> {
        let library = recorded.mappings.iter().find(|it| it.is_ours() && it.file_offset == 0);
        let library = library.context("libmpisee.so is not in the program")?;
        let loader = addr2line::Loader::new(Path::new(&library.name))
            .map_err(|error| anyhow::anyhow!("{}: {error}", library.name))?;
        Ok(Sources { loader, base: library.begin })
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let symbol = self.loader.find_symbol(address - self.base)?;
        Some(format!("{:#}", rustc_demangle::demangle(symbol)))
    }

    /// `file:line` of the library's code, or the name of another library.
    fn source(&self, recorded: &Recorded, address: u64) -> String {
        let Some(mapping) = recorded.mapping(address) else { return "unknown code".to_owned() };
        if !mapping.is_ours() {
            return mapping.file_name().to_owned();
        }
        let location = self.loader.find_location(address - self.base).ok().flatten();
        let Some((file, line)) = location.and_then(|it| Some((it.file?, it.line?))) else {
            return "libmpisee.so".to_owned();
        };
        format!("{}:{line}", short(file))
    }
}

/// A source file without the folders above its crate.
fn short(file: &str) -> &str {
    match file.rfind("/src/").map(|at| file[..at].rfind('/')) {
        Some(Some(crate_at)) => &file[crate_at + 1..],
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "operation\tBarrier\nmap\t1000-2000 r-xp 00001000 00:00 1 /dist/libmpisee.so\n\
        map\t3000-4000 r-xp 00000000 00:00 2 /usr/lib/libmpi.so.40\nmap\t5000-6000 r-xp 00000000 00:00 3 /lib/libc.so.6\n";

    fn instruction(begin: u64, data: &[u64]) -> Instruction {
        let span = |begin| Span { begin, bytes: 8 };
        Instruction { code: Span { begin, bytes: 4 }, data: data.iter().copied().map(span).collect() }
    }

    #[test]
    fn only_what_the_library_does_and_mpi_does_not_is_counted() {
        // The library calls libc, then MPI, which calls libc, too; both use the line at 0x9000.
        let instructions = [
            instruction(0x103e, &[0x9000]),
            instruction(0x5000, &[0xa03c]),
            instruction(0x3000, &[0x9008]),
            instruction(0x5040, &[0xb000]),
            instruction(0x1080, &[0xc000]),
        ];
        let window = Window { operation: 0, instructions: instructions.into() };
        let recorded = Recorded::new(PRINTED, vec![window]).unwrap();
        let figures: Vec<_> = recorded.figures().collect();
        // Code: 0x1000, 0x1040, 0x5000, 0x1080; data: 0xa000, 0xa040, 0xc000. MPI uses the page of
        // libc's code.
        let figure = Figure { instructions: 3, code_lines: 4, data_lines: 3, pages: 3 };
        assert_eq!(figures, [("Barrier".to_owned(), figure)]);
    }
}
