package chaos

// Kind is one kind of fault.
type Kind string

// The kinds of faults. Their order is part of what a seed means.
const (
	KillSidecar     Kind = "SIGKILL of a worker's sidecar"
	KillApp         Kind = "SIGKILL of a worker's app"
	DeleteWorker    Kind = "worker pod deleted by force"
	KillProducer    Kind = "SIGKILL of a producer"
	DeleteProducer  Kind = "producer pod deleted by force"
	FenceProducer   Kind = "SIGSTOP of the active producer across a takeover"
	CutNode         Kind = "node cut off"
	DrainNode       Kind = "node drained"
	StopAPIServer   Kind = "API server down"
	FreezeAPIServer Kind = "API server silent"
	RemoveOperator  Kind = "operator scaled to zero"
	KillOperator    Kind = "SIGKILL of the operator"
	KillDatabase    Kind = "PostgreSQL down"
	RestoreEtcd     Kind = "etcd restored from a snapshot"
	RollPool        Kind = "pool rolled"
	ScalePool       Kind = "pool scaled up and down"
	RenewServing    Kind = "serving certificates replaced"
	RotateAuthority Kind = "certificate authority replaced"
	RotateKey       Kind = "signing key of tokens replaced"
	nothing         Kind = "no fault"
	besideAnOutage  Kind = "" // a draw of a Plan that stands for no process killed besides
)

// trait is what a kind of fault is like.
type trait struct {
	kind Kind
	// lasts: it stands for a while and is undone.
	lasts bool
	// control: it takes something of the control plane away, which the data plane must not notice.
	control bool
	// reason is what it explains about jobs that ran again; empty where it may make no job run again.
	reason Reason
}

// traits of all kinds that a Plan deals, one card of each a deck.
var traits = []trait{
	{kind: KillSidecar, reason: ReasonWorkerKilled},
	{kind: KillApp, reason: ReasonWorkerKilled},
	{kind: DeleteWorker, reason: ReasonWorkerKilled},
	{kind: KillProducer, reason: ReasonProducerKilled},
	{kind: DeleteProducer, reason: ReasonProducerKilled},
	{kind: FenceProducer, lasts: true, reason: ReasonTakeover},
	{kind: CutNode, lasts: true, reason: ReasonNodeCutOff},
	{kind: DrainNode},
	{kind: StopAPIServer, lasts: true, control: true},
	{kind: FreezeAPIServer, lasts: true, control: true},
	{kind: RemoveOperator, lasts: true, control: true},
	{kind: KillOperator},
	{kind: KillDatabase, lasts: true, reason: ReasonDatabaseAway},
	{kind: RestoreEtcd, lasts: true, reason: ReasonPast},
	{kind: RollPool},
	{kind: ScalePool, lasts: true},
	{kind: RenewServing},
	{kind: RotateAuthority},
	{kind: RotateKey},
}

// traitOf is that of a kind.
func traitOf(kind Kind) trait {
	for _, t := range traits {
		if t.kind == kind {
			return t
		}
	}
	return trait{kind: kind}
}
