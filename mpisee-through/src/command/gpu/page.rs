//! `gpu` without options: all that a profile has of GPUs on one page.

use super::cells::{COUNTED, text};
use super::{Chosen, GpuArgs, copies, heat, nccl, table, ways};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::load;
use crate::nccl_times;
use crate::no_match;
use crate::output::Format;
use crate::sheet::{self, Answer, Sheet, Value};
use crate::units::left_out;
use crate::view::{ProfileView, TIMES_OF_NCCL};
use anyhow::Result;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow};
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, BTreeSet};
use ways::{Ways, WithoutPeers};

/// The message where the profile has nothing of GPUs.
const NOTHING: &str = "The profile has nothing of GPUs. A run says which GPUs its ranks use, and the memory of MPI's buffers, where the \
    program uses CUDA; `mpisee --gpu-copies` counts copies and launches, `mpisee --gpu` the accesses of kernels, `mpisee --nccl on` calls of NCCL that is \
    loaded while the program runs, `mpisee --nccl-gpu-time` their time on GPUs.\n";

/// The titles of the lists by communicator.
const STAGED: &str = "Copies for messages";
const COMMS_OF_NCCL: &str = "Communicators of NCCL";
const TIMES_ON_GPUS: &str = "Calls of NCCL on the GPU, waiting for other ranks included";

/// The message where these have nothing of the communicators that are chosen.
const NOTHING_OF_COMMS: &str =
    "There are no calls of NCCL and no copies for messages on these communicators.\n";

/// The note on the time of calls with buffers.
const ON_WAITS: &str = "MPI_Wait, MPI_Win_fence and their kind have no buffers: waiting for data, also between GPUs, is in no row of the buffers.";

/// All that a profile has of GPUs; of sums over ranks what they have.
pub struct Page {
    /// Each below its title, empty where the profile has nothing of the kind.
    sheets: Vec<(&'static str, Sheet)>,
    /// True if the profile has anything of GPUs.
    pub has_some: bool,
    /// Short names of GPUs by their UUIDs.
    pub names: BTreeMap<String, String>,
    /// Sentences on data that is in no sheet.
    pub notes: Vec<String>,
    /// A sentence a line on copies for messages.
    pub closing: String,
}

impl Page {
    /// Reads the profile.
    pub fn from_view(view: &ProfileView, args: &GpuArgs) -> Result<Self> {
        let chosen = Chosen::from_view(view, args)?;
        let devices: Vec<DeviceRow> = load::if_any(view.profile())?;
        let links: Vec<DeviceLinkRow> = load::if_any(view.profile())?;
        let of_host = copies::Rows::from_profile(view.profile(), args)?;
        let mut notes: Vec<String> = chosen.problems.iter().cloned().collect();
        let names = short_names(&chosen, &devices, &of_host);
        let is_table = args.output.format() == Format::Table;
        // Programs compare whole UUIDs.
        let shown = DeviceNames(if is_table { names.clone() } else { BTreeMap::new() });
        let buffers = Buffers::from_view(view)?;
        let ways = match view.ranks("whose data moved") {
            Ok(_) => {
                let ways = Ways::from_profile(
                    view.profile(),
                    &chosen,
                    &of_host.copies,
                    !buffers.sheet.rows.is_empty(),
                )?;
                notes.extend(ways.notes(buffers.without_peers));
                ways
            }
            Err(_) => {
                notes.push("Sums over ranks do not have what moved between which GPUs.".to_owned());
                Ways::default()
            }
        };
        let of_nccl = nccl::comm_sheet(view, &CommFilter::default())?;
        notes.extend((!of_nccl.rows.is_empty()).then(|| TIMES_OF_NCCL.to_owned()));
        notes.extend(nccl_times::share_of_wall(view)?);
        notes.extend(nccl_times::note_on_sums(view));
        notes.extend(
            (!buffers.sheet.rows.is_empty() && !view.run().is_without_mpi()).then(|| ON_WAITS.to_owned()),
        );
        let accessed = table(view, &chosen, args)?;
        let mut sheets = vec![
            ("Data from and to GPUs, by who moved them", ways.sheet(|end| shown.get(end))),
            ("GPUs", device_sheet(&devices, &shown)),
            ("Between GPUs, and from GPUs to network adapters", link_sheet(&links, &shown)),
            ("Buffers of calls, by the memory they are in", buffers.sheet),
            ("Copies and launches of the host", copies::by_end(&of_host, args)),
            (STAGED, copies::by_comm(&of_host, args)),
            (COMMS_OF_NCCL, of_nccl),
            (TIMES_ON_GPUS, nccl::time_sheet(view, &CommFilter::default())?),
        ];
        notes.extend(cut(&mut sheets, args));
        sheets.extend(accessed.sheets.into_iter().map(|sheet| ("Accesses of kernels", sheet)));
        let has_some = sheets.iter().any(|(_, sheet)| !sheet.rows.is_empty());
        Ok(Page { sheets, has_some, names, notes, closing: copies::sentences(&of_host.staged) })
    }

    /// The sheets that are not empty, each with its title.
    pub fn titled(&self) -> impl Iterator<Item = (&'static str, &Sheet)> {
        self.sheets.iter().map(|(title, sheet)| (*title, sheet)).filter(|(_, sheet)| !sheet.rows.is_empty())
    }
}

/// Leaves out columns and rows for which a table has no room or no need, and returns a note on rows
/// of each list.
fn cut(sheets: &mut [(&'static str, Sheet)], args: &GpuArgs) -> Vec<String> {
    let most = args.shown.limit(&args.output);
    let is_table = args.output.format() == Format::Table;
    let mut notes = Vec::new();
    for (title, sheet) in sheets {
        if is_table && !sheet.rows.is_empty() {
            sheet.keep_columns(|_, is_empty| !is_empty);
        }
        if sheet.rows.len() > most {
            let sentence = left_out(sheet.rows.len() - most, "row");
            notes.push(format!("Of the list '{title}' {}", sentence.trim_end()));
            sheet.rows.truncate(most);
        }
    }
    notes
}

/// The lists by communicator, of those that are chosen; CSV has the first that is not empty.
pub fn of_comms(view: &ProfileView, args: &GpuArgs) -> Result<Answer> {
    let comms = CommFilter::of_comms(args.comm.clone());
    no_match::need_chosen(view, &comms)?;
    let mut of_host = copies::Rows::from_profile(view.profile(), args)?;
    of_host.staged.retain(|row| view.processes().takes_comm(&comms, &row.comm));
    let mut sheets = vec![
        (COMMS_OF_NCCL, nccl::comm_sheet(view, &comms)?),
        (TIMES_ON_GPUS, nccl::time_sheet(view, &comms)?),
        (STAGED, copies::by_comm(&of_host, args)),
    ];
    let has_nccl = !sheets[0].1.rows.is_empty();
    // An answer has one list at least.
    let first = sheets.iter().position(|(_, sheet)| !sheet.rows.is_empty()).unwrap_or(0);
    sheets.rotate_left(first);
    let notes = cut(&mut sheets, args);
    let is_empty = sheets[0].1.rows.is_empty();
    let mut answer = Answer::of_sheets(view.profile(), sheets);
    answer.closing = if is_empty { NOTHING_OF_COMMS.to_owned() } else { copies::sentences(&of_host.staged) };
    answer.caveats.extend(has_nccl.then(|| TIMES_OF_NCCL.to_owned()));
    answer.caveats.extend(nccl_times::note_on_sums(view));
    answer.caveats.extend(notes);
    Ok(answer)
}

/// The page as an answer.
pub fn answer(view: &ProfileView, args: &GpuArgs) -> Result<Answer> {
    let page = Page::from_view(view, args)?;
    let closing = if page.has_some { page.closing } else { NOTHING.to_owned() };
    let mut answer = Answer::of_sheets(view.profile(), page.sheets);
    answer.closing = closing;
    answer.caveats.extend(page.notes);
    Ok(answer)
}

/// Short names of GPUs by their UUIDs: the first digits.
fn short_names(chosen: &Chosen, devices: &[DeviceRow], of_host: &copies::Rows) -> BTreeMap<String, String> {
    let of_copies = of_host.copies.iter().flat_map(|row| [&row.from_device, &row.to_device]);
    let of_kernels =
        chosen.rows.iter().flat_map(|row| row.rank.iter().map(|(_, it)| it).chain([&row.peer_device]));
    let of_devices = devices.iter().flat_map(|row| [&row.uuid, &row.part_of]);
    let all = of_devices.chain(of_copies).chain(of_kernels);
    let all: BTreeSet<String> = all.chain(chosen.devices.values().flatten()).cloned().collect();
    let all: Vec<String> = all.into_iter().collect();
    let short = heat::short_ids(&all);
    all.into_iter().zip(short).filter(|(all, short)| all != short).collect()
}

/// The names of GPUs in sheets.
struct DeviceNames(BTreeMap<String, String>);

impl DeviceNames {
    fn get(&self, device: &str) -> String {
        self.0.get(device).map_or(device, String::as_str).to_owned()
    }
}

fn count(number: Option<u32>) -> Value {
    number.map_or(Value::Nothing, |number| Value::Count(number.into()))
}

/// `1` and `0` in words.
fn yes_or_no(answer: Option<u8>) -> Value {
    answer.map_or(Value::Nothing, |it| Value::from(if it == 1 { "yes" } else { "no" }))
}

fn device_sheet(devices: &[DeviceRow], names: &DeviceNames) -> Sheet {
    let heads = [
        sheet::fixed("host", "HOST").hidden_at(3),
        sheet::fixed("gpu", "GPU"),
        sheet::fixed("model", "MODEL").hidden_at(1),
        sheet::fixed("pci_address", "PCI").hidden_at(2),
        sheet::number("numa_node", "NUMA NODE").or_none(),
        sheet::number("memory_bytes", "MEMORY").hidden_at(0),
        sheet::number("nvlinks", "NVLINKS").or_none(),
        sheet::fixed("part_of", "PART OF").or_none(),
        sheet::fixed("ranks", "RANKS"),
    ];
    let row = |row: &DeviceRow| {
        vec![
            text(&row.host),
            Value::Text(names.get(&row.uuid)),
            text(&row.model),
            text(&row.pci_address),
            count(row.numa_node),
            row.memory_bytes.map_or(Value::Nothing, Value::Bytes),
            count(row.nvlinks),
            text(&names.get(&row.part_of)),
            text(&row.ranks.to_string()),
        ]
    };
    Sheet { name: "devices", heads: heads.to_vec(), rows: devices.iter().map(row).collect() }
}

fn link_sheet(links: &[DeviceLinkRow], names: &DeviceNames) -> Sheet {
    let heads = [
        sheet::fixed("host", "HOST").or_none(),
        sheet::fixed("device", "GPU"),
        sheet::fixed("peer", "AND"),
        sheet::fixed("path", "PCIE"),
        sheet::number("nvlinks", "NVLINKS"),
        sheet::fixed("peer_access", "ACCESS"),
        sheet::fixed("native_atomics", "ATOMICS").or_none(),
    ];
    let row = |row: &DeviceLinkRow| {
        vec![
            text(&row.host),
            Value::Text(names.get(&row.device)),
            Value::Text(names.get(&row.peer)),
            text(&row.path),
            count(row.nvlinks),
            yes_or_no(row.peer_access),
            yes_or_no(row.native_atomics),
        ]
    };
    Sheet { name: "links", heads: heads.to_vec(), rows: links.iter().map(row).collect() }
}

/// Calls that moved bytes, by library and memory; no row where all memory is the host's and there
/// is no NCCL.
struct Buffers {
    sheet: Sheet,
    /// Bytes of all calls, in whatever memory, that have no peers in the profile; no collectives
    /// where there are no rows.
    without_peers: WithoutPeers,
}

impl Buffers {
    fn from_view(view: &ProfileView) -> Result<Self> {
        let mut rows = Vec::new();
        let (mut is_of_gpus, mut without_peers) = (false, WithoutPeers::default());
        for (memory, filter) in CallFilter::each_memory() {
            let groups = view.group(&filter, By { call: true, without_times: true, ..By::default() })?;
            let mut sums: BTreeMap<&str, (u64, u64, u128)> = BTreeMap::new();
            for (key, cell) in groups.cells.iter().filter(|(_, cell)| cell.bytes > 0) {
                let call = groups.call(key);
                let of_kind = match Operation::from_name(call).map(Operation::kind) {
                    Some(OperationKind::Collective) => Some(&mut without_peers.collective),
                    Some(OperationKind::OneSided) => Some(&mut without_peers.one_sided),
                    _ => None,
                };
                if let Some(sum) = of_kind {
                    *sum = sum.saturating_add(cell.bytes);
                }
                let sum = sums.entry(if is_nccl(call) { "NCCL" } else { "MPI" }).or_default();
                *sum = (
                    sum.0.saturating_add(cell.calls),
                    sum.1.saturating_add(cell.bytes),
                    sum.2.saturating_add(cell.time_ns),
                );
            }
            for (library, (calls, bytes, time_ns)) in sums {
                is_of_gpus |= memory != "host" || library == "NCCL";
                let key = [Value::from(library), Value::from(memory)];
                let sums = [
                    Value::Count(calls),
                    Value::Bytes(bytes),
                    Value::Seconds(crate::group::seconds(time_ns)),
                ];
                rows.push(key.into_iter().chain(sums).collect::<Vec<_>>());
            }
        }
        if !is_of_gpus {
            rows.clear();
            without_peers.collective = 0;
        }
        rows.sort_by(|one, other| one[0].in_table().cmp(&other[0].in_table()));
        let mut heads = vec![sheet::fixed("library", "CALLS OF"), sheet::fixed("memory", "MEMORY")];
        heads.extend(COUNTED);
        Ok(Buffers { sheet: Sheet { name: "buffers", heads, rows }, without_peers })
    }
}
