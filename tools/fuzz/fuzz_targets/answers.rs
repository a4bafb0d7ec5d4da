#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    mpisee_fuzz::silence();
    mpisee_fuzz::readers::answers(input);
});
