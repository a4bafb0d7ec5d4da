//! Which GPU each rank used, and whether it is near the rank's cores: `ranks --by gpu`, and the
//! rule `gpu-far`.

use crate::advise::gpu_far::run;
use crate::support::Builder;
use mpisee_profile::rows::Memory;

#[test]
fn each_rank_is_shown_with_its_gpu() {
    let ran = run().write().run(&["ranks", "app.mpisee", "--by", "gpu", "--format", "csv"]);
    ran.exits(0).prints(
        "rank,ranks,host,gpu,model,pci_address,memory_bytes,gpu_numa_node,cpus_near,rank_numa_nodes,cpus_allowed,near,nic,nic_path\n\
         0,0,n1,GPU-a,H100,0000:17:00.0,85899345920,0,0-7,0,0-3,yes,mlx5_0,SYS\n\
         1,1-2,n1,GPU-b,H100,0000:97:00.0,85899345920,1,8-15,0,4-7,no,mlx5_0,NODE\n\
         2,1-2,n1,GPU-b,H100,0000:97:00.0,85899345920,1,8-15,0-1,0-15,unknown,mlx5_0,NODE\n",
    );
}

#[test]
fn a_rank_far_from_its_gpu_is_found() {
    let far = run().call_with("W", 1, "MPI_Allreduce", 3, 4242, 0.5, |row| row.memory = Memory::Device);
    let ran = far.write().run(&["advise", "app.mpisee", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let found: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let row = found.iter().find(|row| &row[0] == "gpu-far").expect("it is found");
    assert_eq!((&row[1], row[2].parse()), ("n1", Ok(0.5)));
    assert_eq!(&row[4], "Rank 1 has cores on another NUMA node than the GPU.");
    assert_eq!(
        &row[5],
        "Rank 1 has CPUs 4-7 of NUMA node 0; its GPU 0000:97:00.0 is at node 1, near CPUs 8-15. The network \
         adapter nearest to this GPU is mlx5_0 (NODE). The placement of 1 more rank with a GPU is unknown: \
         its cores are on several NUMA nodes, or the kernel does not report the node of the GPU."
    );
}

#[test]
fn what_is_unknown_is_no_finding() {
    let unknown = run().with(|profile| {
        profile.devices.iter_mut().for_each(|row| row.numa_node = None);
    });
    let ran = unknown.write().run(&["advise", "app.mpisee", "--format", "csv"]);
    assert!(!ran.exits(0).stdout.contains("gpu-far"), "{}", ran.stdout);
    let none = Builder::new(2).write();
    let ran = none.run(&["ranks", "app.mpisee", "--by", "gpu"]);
    assert!(ran.exits(0).stdout.contains("No rank used a GPU"), "{}", ran.stdout);
}
