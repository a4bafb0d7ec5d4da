//! Several nodes, played on this machine: each has an address, a host name, processes, `/tmp` and
//! `/dev/shm` of its own, made of namespaces (namespaces(7)) inside of namespaces that belong to
//! the test alone. The machine itself is not changed, and what was made ends with the test, however
//! that ends.

use crate::{LIMIT, Mpi, harness, root, within};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Nodes `n1`, `n2` …, and the host `login` on which launchers run.
pub struct Cluster {
    nodes: u32,
    /// The process that made the namespaces around all; its input keeps them.
    keeper: Child,
    /// Options of `nsenter(1)`, beside those for the kinds of namespaces that each node has.
    entering: &'static [&'static str],
    folder: tempfile::TempDir,
}

/// The kinds of namespaces that a node has of its own.
const OWN: [&str; 4] = ["--net", "--mount", "--uts", "--ipc"];

impl Cluster {
    /// Begins so many nodes. Returns `None`, and reports the case as left out, where they cannot be
    /// played.
    pub fn begin(nodes: u32) -> Option<Cluster> {
        // A namespace of users gives its maker the rights that the others need. Where there can be
        // none, root has them.
        let ways: [(&[&str], &'static [&str]); 2] =
            [(&["--user", "--map-root-user"], &["--user", "--preserve-credentials"]), (&[], &[])];
        let mut complaints = Vec::new();
        for (making, entering) in ways {
            match Cluster::begin_with(nodes, making, entering) {
                Ok(cluster) => return Some(cluster),
                Err(complaint) => complaints.push(complaint.trim().replace('\n', "; ")),
            }
        }
        harness::leave_out(format!("no nodes can be played here: {}", complaints.join("; ")));
        None
    }

    fn begin_with(nodes: u32, making: &[&str], entering: &'static [&'static str]) -> Result<Cluster, String> {
        let below = root().join("target/nodes");
        std::fs::create_dir_all(&below).expect("target can be written");
        let folder = tempfile::tempdir_in(below).expect("target can be written");
        let mut command = Command::new("unshare");
        command.args(making).args(OWN).args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(root().join("tests/nodes/cluster")).arg(folder.path()).arg(root()).arg(nodes.to_string());
        // `ip` is seldom in the PATH of users.
        command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let stdout = keeper.stdout.take().expect("it is a pipe");
        let _ = BufReader::new(stdout).read_line(&mut line);
        let cluster = Cluster { nodes, keeper, entering, folder };
        if line == "ready\n" { Ok(cluster) } else { Err(cluster.complaint()) }
    }

    /// Error output of the process that could not make the nodes.
    fn complaint(mut self) -> String {
        drop(self.keeper.stdin.take());
        let mut said = String::new();
        let mut stderr = self.keeper.stderr.take().expect("it is a pipe");
        let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        said
    }

    /// A folder that all nodes see.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The names of the nodes.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.nodes).map(|node| format!("n{node}"))
    }

    /// The command on a node, or on `login`. It has the same environment, input, output and working
    /// directory.
    pub fn on(&self, host: &str, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        self.enter(&mut entered, self.keeper.id(), self.entering);
        if host != "login" {
            entered.arg("nsenter");
            let file = self.folder().join(format!("{host}.pid"));
            let process = std::fs::read_to_string(file).expect("a node of that name");
            self.enter(&mut entered, process.trim().parse().expect("a number"), &[]);
        }
        let here = std::env::current_dir().expect("there is one");
        let directory = command.get_current_dir().unwrap_or(&here);
        entered.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(directory);
        entered.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entered.env(name, value),
                None => entered.env_remove(name),
            };
        }
        entered.env("NODES_FOLDER", self.folder()).stdin(Stdio::null());
        entered
    }

    fn enter(&self, command: &mut Command, process: u32, options: &[&str]) {
        // The process itself is not among those that it starts.
        let pids = format!("--pid=/proc/{process}/ns/pid_for_children");
        command.arg("--target").arg(process.to_string()).args(options).args(OWN).arg(pids);
    }

    /// The options of the MPI's launcher, on `login`, with which each node gets `ranks_per_node`
    /// consecutive ranks; and what it needs in its environment.
    pub fn launch(&self, mpi: &Mpi, command: &mut Command, ranks_per_node: u32) {
        const NETWORK: &str = "10.77.0.0/24";
        let agent = root().join("tests/nodes/agent").display().to_string();
        let names: Vec<String> = self.names().collect();
        if !mpi.is_open_mpi {
            command.args(["-hosts", &names.join(","), "-ppn", &ranks_per_node.to_string()]);
            command.args(["-iface", "bridge", "-launcher", "ssh", "-launcher-exec", &agent]);
            command.env("UCX_TLS", "tcp,self,sm").env("UCX_NET_DEVICES", "e0");
            return;
        }
        let slots: Vec<String> = names.iter().map(|name| format!("{name}:{ranks_per_node}")).collect();
        command.args(["--host", &slots.join(",")]);
        if !mpi.name.starts_with("openmpi-4") {
            command.args(["--map-by", &format!("ppr:{ranks_per_node}:node:OVERSUBSCRIBE")]);
        }
        let of_version: [(&str, &str); 3] = if mpi.name.starts_with("openmpi-4") {
            [("plm_rsh_agent", &agent), ("oob_tcp_if_include", NETWORK), ("btl", "tcp,vader,self")]
        } else {
            [("plm_ssh_agent", &agent), ("prte_if_include", NETWORK), ("btl", "tcp,sm,self")]
        };
        for (name, value) in of_version.into_iter().chain([("btl_tcp_if_include", NETWORK), ("pml", "ob1")]) {
            let of_launcher = name.starts_with("plm_ssh") || name.starts_with("prte_");
            command.args([if of_launcher { "--prtemca" } else { "--mca" }, name, value]);
        }
    }

    /// Runs a command on a node, with success; what it prints.
    pub fn run(&self, host: &str, command: &Command) -> String {
        let output = within(LIMIT, &mut self.on(host, command));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} on {host}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The files whose names begin like that in a folder of a node.
    pub fn files(&self, host: &str, folder: &str, begin: &str) -> Vec<PathBuf> {
        let mut list = Command::new("find");
        list.args([folder, "-mindepth", "1", "-maxdepth", "1", "-name"]).arg(format!("{begin}*"));
        self.run(host, &list).lines().map(PathBuf::from).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Without its input the first process ends, and with it all others in there.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
