//! The batch job of this process, by the name that users see: `Slurm 4711.0`.

/// `Slurm 4711.0`, as `sacct` names a job and its step; `Slurm 4711_3.0` for a task of an array;
/// `PBS 4711.server`; `LSF 4711[3]`. `None` outside of any.
pub fn batch_job() -> Option<String> {
    named(|name| std::env::var(name).ok())
}

fn named(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let slurm = || {
        let job = match (given("SLURM_ARRAY_JOB_ID"), given("SLURM_ARRAY_TASK_ID")) {
            (Some(array), Some(task)) => format!("{array}_{task}"),
            _ => given("SLURM_JOB_ID")?,
        };
        let step = given("SLURM_STEP_ID").map(|step| format!(".{step}")).unwrap_or_default();
        Some(format!("Slurm {job}{step}"))
    };
    let pbs = || given("PBS_JOBID").map(|job| format!("PBS {job}"));
    let lsf = || {
        let index = given("LSB_JOBINDEX").filter(|index| index != "0");
        let index = index.map(|index| format!("[{index}]")).unwrap_or_default();
        Some(format!("LSF {}{index}", given("LSB_JOBID")?))
    };
    slurm().or_else(pbs).or_else(lsf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pairs: &[(&str, &str)]) -> Option<String> {
        named(|wanted| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn jobs_are_named_as_their_systems_name_them() {
        assert_eq!(job(&[]), None);
        assert_eq!(job(&[("SLURM_JOB_ID", "61")]).unwrap(), "Slurm 61");
        assert_eq!(job(&[("SLURM_JOB_ID", "61"), ("SLURM_STEP_ID", "2")]).unwrap(), "Slurm 61.2");
        let array = [("SLURM_JOB_ID", "63"), ("SLURM_ARRAY_JOB_ID", "61"), ("SLURM_ARRAY_TASK_ID", "4")];
        assert_eq!(job(&array).unwrap(), "Slurm 61_4");
        assert_eq!(job(&[("PBS_JOBID", "61.server")]).unwrap(), "PBS 61.server");
        assert_eq!(job(&[("LSB_JOBID", "61"), ("LSB_JOBINDEX", "0")]).unwrap(), "LSF 61");
        assert_eq!(job(&[("LSB_JOBID", "61"), ("LSB_JOBINDEX", "3")]).unwrap(), "LSF 61[3]");
        assert_eq!(job(&[("PBS_JOBID", "")]), None);
    }
}
