//! Where devices are in a node: the PCI tree, NUMA nodes and network adapters, as `/sys` shows
//! them.
//!
//! Everything may be unknown: `/sys` may be closed, as in containers, and firmware may not say
//! which NUMA node a bridge is of.

use mpisee_profile::rows::{Cpus, NicRow};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where the kernel shows devices.
pub const SYS: &str = "/sys";
/// The classes of network adapters.
const CLASSES: [&str; 2] = ["infiniband", "net"];
/// Network adapters of a node, and its NUMA nodes, that are kept at most.
const MOST: usize = 64;

/// The place of a PCI device in its node; each part is empty if it is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PciLocation {
    /// The NUMA node that is nearest.
    pub numa_node: Option<u32>,
    /// The CPUs that are nearest.
    pub cpus_near: Cpus,
    /// The host bridge, ports and switches on the way, and the device, with `/` between them.
    pub path: String,
}

/// The place of the device with a PCI address, `0000:17:00.0`. `sys` is [`SYS`].
pub fn place(sys: &Path, address: &str) -> PciLocation {
    match is_address(address) {
        true => place_in(&sys.join("bus/pci/devices").join(address)).1,
        false => PciLocation::default(),
    }
}

/// The network adapters on PCI, in the order of their names; a part of them where there are very
/// many.
pub fn nics(sys: &Path) -> Vec<NicRow> {
    let mut rows = Vec::new();
    for class in CLASSES {
        let entries = fs::read_dir(sys.join("class").join(class)).into_iter().flatten().flatten();
        rows.extend(entries.filter_map(|entry| nic(class, &entry.path())).take(MOST));
    }
    rows.sort_by(|one, other| (&one.class, &one.nic).cmp(&(&other.class, &other.nic)));
    rows
}

fn nic(class: &str, entry: &Path) -> Option<NicRow> {
    let (folder, place) = place_in(&entry.join("device"));
    if place.path.is_empty() {
        return None; // Not on PCI: a bridge or a tunnel.
    }
    Some(NicRow {
        host: String::new(),
        nic: entry.file_name()?.to_str()?.to_owned(),
        class: class.to_owned(),
        pci_address: folder.file_name()?.to_str()?.to_owned(),
        numa_node: place.numa_node,
        pci_path: place.path,
        is_up: is_up(class, entry).map(u8::from),
    })
}

/// Returns whether a port of an adapter is up; `None` if that is unknown.
fn is_up(class: &str, entry: &Path) -> Option<bool> {
    if class == "net" {
        // `unknown` of drivers that do not look.
        return match text(&entry.join("operstate"))?.as_str() {
            "up" => Some(true),
            "unknown" => None,
            _ => Some(false),
        };
    }
    let ports = fs::read_dir(entry.join("ports")).ok()?.flatten();
    let states = ports.filter_map(|port| text(&port.path().join("state")));
    states.map(|state| state.ends_with("ACTIVE")).reduce(|one, other| one || other)
}

/// The NUMA nodes with their CPUs, by number.
pub fn numa_nodes(sys: &Path) -> Vec<(u32, Cpus)> {
    let entries = fs::read_dir(sys.join("devices/system/node")).into_iter().flatten().flatten();
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, text(&entry.path().join("cpulist"))?.parse::<Cpus>().ok()?))
    };
    let mut nodes: Vec<(u32, Cpus)> =
        entries.filter_map(node).filter(|(_, cpus)| !cpus.is_empty()).take(MOST).collect();
    nodes.sort_by_key(|&(number, _)| number);
    nodes
}

/// The folder and the place of the PCI device that a link leads to, or that has it.
fn place_in(link: &Path) -> (PathBuf, PciLocation) {
    let Ok(whole) = fs::canonicalize(link) else { return Default::default() };
    let mut folder = PathBuf::new();
    let (mut path, mut on_pci, mut length) = (Vec::new(), PathBuf::new(), 0);
    for component in whole.components() {
        folder.push(component);
        let Component::Normal(name) = component else { continue };
        let name = name.to_string_lossy().into_owned();
        if path.is_empty() && !name.starts_with("pci") {
            continue;
        }
        if is_address(&name) {
            (on_pci, length) = (folder.clone(), path.len() + 1);
        }
        path.push(name);
    }
    // The rest is not on PCI, as a virtual adapter's own folder.
    path.truncate(length);
    if path.len() < 2 {
        return Default::default();
    }
    let place = PciLocation {
        // -1 if it is unknown.
        numa_node: text(&on_pci.join("numa_node")).and_then(|number| number.parse().ok()),
        cpus_near: text(&on_pci.join("local_cpulist")).and_then(|list| list.parse().ok()).unwrap_or_default(),
        path: path.join("/"),
    };
    (on_pci, place)
}

/// Returns whether a name is a PCI address: `0000:17:00.0`, with a domain of four digits or more.
fn is_address(name: &str) -> bool {
    let digits =
        |text: &str, least: usize| text.len() >= least && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = name.split([':', '.']).collect();
    match parts[..] {
        [domain, bus, device, function] => {
            digits(domain, 4) && digits(bus, 2) && digits(device, 2) && digits(function, 1)
        }
        _ => false,
    }
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// How two devices are connected by PCIe, as `nvidia-smi topo` calls it; empty if that is unknown.
/// `paths` are the ways to them.
pub fn connection(paths: [&str; 2], numa_nodes: [Option<u32>; 2]) -> &'static str {
    let [one, other] = paths.map(|path| path.split('/').collect::<Vec<_>>());
    if paths.iter().any(|path| path.is_empty()) {
        return "";
    }
    if one == other {
        return "same";
    }
    let common = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    match (common, numa_nodes) {
        (0, [Some(one), Some(other)]) if one == other => "NODE",
        (0, [Some(_), Some(_)]) => "SYS",
        (0, _) => "",
        (1, _) => "PHB",
        // Below a switch each is behind a port of it.
        _ if one.len() - common <= 2 && other.len() - common <= 2 => "PIX",
        _ => "PXB",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A node with two sockets: below the first a switch with a GPU and an adapter, and another GPU
    /// behind a second switch.
    fn node() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let device = |path: &str, numa_node: &str, cpus: &str| {
            let folder = root.path().join("devices").join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("numa_node"), numa_node).unwrap();
            fs::write(folder.join("local_cpulist"), cpus).unwrap();
            let link = root.path().join("bus/pci/devices").join(path.rsplit('/').next().unwrap());
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&folder, link).unwrap();
            folder
        };
        device("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", "0\n", "0-7,16-23\n");
        device("pci0000:80/0000:80:01.0/0000:81:00.0", "-1\n", "0-31\n");
        let adapter =
            device("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", "0\n", "0-7,16-23\n");
        let ethernet = device("pci0000:00/0000:00:03.0", "1\n", "8-15,24-31\n").join("virtio0");
        fs::create_dir_all(&ethernet).unwrap();
        let class = |entry: &str, device: &Path, file: &str, state: &str| {
            let folder = root.path().join("class").join(entry);
            fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            symlink(device, folder.join("device")).unwrap();
            fs::write(folder.join(file), state).unwrap();
        };
        class("infiniband/mlx5_0", &adapter, "ports/1/state", "4: ACTIVE\n");
        class("net/eth0", &ethernet, "operstate", "down\n");
        fs::create_dir_all(root.path().join("class/net/lo")).unwrap();
        for (node, cpus) in [(0, "0-7,16-23\n"), (1, "8-15,24-31\n"), (2, "\n")] {
            let folder = root.path().join(format!("devices/system/node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), cpus).unwrap();
        }
        root
    }

    #[test]
    fn places_are_read_and_unknown_where_the_kernel_does_not_say() {
        let root = node();
        let near = place(root.path(), "0000:19:00.0");
        assert_eq!((near.numa_node, near.cpus_near.to_string().as_str()), (Some(0), "0-7,16-23"));
        assert_eq!(near.path, "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0");
        assert_eq!(place(root.path(), "0000:81:00.0").numa_node, None);
        for absent in ["0000:99:00.0", "../../../etc", ""] {
            assert_eq!(place(root.path(), absent), PciLocation::default(), "{absent}");
        }
        let nodes = numa_nodes(root.path());
        assert_eq!(
            nodes.iter().map(|(node, cpus)| (*node, cpus.len())).collect::<Vec<_>>(),
            [(0, 16), (1, 16)]
        );
        let closed = root.path().join("closed");
        assert!(numa_nodes(&closed).is_empty() && nics(&closed).is_empty());
    }

    #[test]
    fn adapters_are_those_on_pci() {
        let root = node();
        let rows = nics(root.path());
        let about = |row: &NicRow| (row.nic.clone(), row.pci_address.clone(), row.numa_node, row.is_up);
        assert_eq!(
            rows.iter().map(about).collect::<Vec<_>>(),
            [
                ("mlx5_0".to_owned(), "0000:1a:00.0".to_owned(), Some(0), Some(1)),
                ("eth0".to_owned(), "0000:00:03.0".to_owned(), Some(1), Some(0)),
            ]
        );
        assert_eq!(rows[1].pci_path, "pci0000:00/0000:00:03.0");
    }

    #[test]
    fn connections_are_those_of_the_pci_tree() {
        let of = |one: &str, other: &str, numa: [Option<u32>; 2]| connection([one, other], numa);
        let gpu = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0";
        let both = [Some(0), Some(0)];
        assert_eq!(of(gpu, gpu, both), "same");
        assert_eq!(of(gpu, "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", both), "PIX");
        let behind =
            "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0";
        assert_eq!(of(gpu, behind, both), "PXB");
        assert_eq!(of(gpu, "pci0000:16/0000:16:02.0/0000:20:00.0", both), "PHB");
        let far = "pci0000:80/0000:80:01.0/0000:81:00.0";
        assert_eq!(of(gpu, far, both), "NODE");
        assert_eq!(of(gpu, far, [Some(0), Some(1)]), "SYS");
        assert_eq!(of(gpu, far, [Some(0), None]), "");
        assert_eq!(of(gpu, "", both), "");
        // On one bus, as the functions of one adapter.
        assert_eq!(
            of("pci0000:16/0000:16:01.0/0000:17:00.0", "pci0000:16/0000:16:01.0/0000:17:00.1", both),
            "PIX"
        );
    }
}
