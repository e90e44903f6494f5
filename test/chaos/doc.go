// Package chaos breaks a real cluster for a stated time while jobs are submitted, and reports what became of them. `make chaos MINUTES=n`
// runs it.
//
// Two flows are under load, one with a Local queue and one whose two producers share a PostgreSQL server. A Plan deals faults: processes
// killed and paused, pods deleted by force, nodes cut off and drained, the API server, the operator and the database away, pools rolled
// and scaled. The books of submitters and the ledgers of the workers' apps (test/prober) lie in a directory of this machine, outside of
// the cluster.
//
// The rule of what comes together: one fault stands at a time. The next comes when that one is undone, every pod is ready and every flow
// has confirmed a job that was submitted after the fault. While the API server or the operator is away, one process of a worker or of a
// producer may be killed besides, since that is promised.
//
// Invariants:
//   - The faults and whom they choose follow from the seed alone; when they come depends on the machine too.
//   - The judgement reads files: books, ledgers, and what was done and when. It is made again from them at any time.
//   - A fault that cannot be carried out or undone fails the run, as does a lost job, a run of a job that nothing explains, a
//     stall beyond its bound, and a load that is too small to prove anything.
package chaos
