//! GPUs as the recorder, the GPU tracer and the agent name them, so that what one writes is found
//! in what another does.

/// NVLinks of a GPU, at most.
pub const MOST_NVLINKS: u32 = 36;

/// `GPU-8f6ad5c8-…`, of a MIG instance `MIG-…`, as nvidia-smi writes it. `kind` is `GPU` or `MIG`.
pub fn uuid_text(kind: &str, uuid: [u8; 16]) -> String {
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part]));
    format!("{kind}-{a}-{b}-{c}-{d}-{e}")
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A PCI address as the kernel writes it: `0000:17:00.0` of NVIDIA's `00000000:17:00.0`.
pub fn kernel_address(bus_id: &str) -> String {
    let bus_id = bus_id.to_lowercase();
    match bus_id.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => bus_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        assert_eq!(kernel_address("00000000:17:00.0"), "0000:17:00.0");
        assert_eq!(kernel_address("00010000:AB:00.0"), "00010000:ab:00.0");
        assert_eq!(kernel_address("0000:17:00.0"), "0000:17:00.0");
        assert_eq!(kernel_address(""), "");
    }

    #[test]
    fn uuids_are_those_of_nvidia_smi() {
        let uuid = std::array::from_fn(|at| at as u8 * 0x11);
        assert_eq!(uuid_text("GPU", uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
