//! The chart that shows the evidence of a finding.

/// The identifier of a chart on the page.
pub fn chart(rule: &str) -> &'static str {
    match rule {
        "no-core" => "cpu",
        "waiting" | "needless-barriers" => "waits",
        "uneven-work" | "finalize" | "skewed-volume" => "ranks",
        "scattered" => "locality",
        "through-one-rank" => "matrix",
        "tiny-allreduces" | "small-messages" | "alltoallv" | "slow-transfer" | "blocking-sends" => "sizes",
        "creation" => "comms",
        "reorder" => "grid",
        "gpu-far" | "staging" | "nccl-uneven" | "nccl-time" => "gpus",
        // Of dominating communicators, polling and rules to come: where the time is.
        _ => "operations",
    }
}
