package pool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Snapshot is all that a plan depends on.
type Snapshot struct {
	Desired        int
	MaxSurge       int
	MaxUnavailable int
	// Revision and RuntimeRevision are those a new worker gets.
	Revision        string
	RuntimeRevision string
	// RollRuntime says that a worker with another runtime is out of date.
	RollRuntime bool
	Paused      bool
	// Failing says how every job fails with the newest revision; empty where it does not. A rollout is held then.
	Failing string
	// Deleting says that every worker has to leave.
	Deleting bool
	// LeasesTell says that an expired Lease tells of its worker, and not of the control plane.
	LeasesTell bool
	// MayCreate is false while the flow is missing or its ServiceAccount is refused, and while creation backs off.
	MayCreate    bool
	DrainTimeout time.Duration
	// Workers are the pods of the pool, sorted by name.
	Workers []Worker
}

// Worker is one pod as the planner sees it.
type Worker struct {
	Name string
	UID  string
	// Age is how long ago the pod was created.
	Age             time.Duration
	Revision        string
	RuntimeRevision string
	// Terminating pods are being deleted, by anyone; terminal ones have ended and will not run again.
	Terminating bool
	Terminal    bool
	// Started says that the runtime has run in the pod. Where it has not, the pod holds no job.
	Started bool
	Ready   bool
	// Counted says that the pod is in the selector of the pool; Mislabelled, that it lacks a label it should have.
	Counted     bool
	Mislabelled bool
	// Draining says that the pod was chosen to leave, for DrainingFor.
	Draining    bool
	DrainingFor time.Duration
	// AskedFor says that someone marked the pod as the next to go.
	AskedFor bool
	// Lease is what the worker's Lease says.
	Lease LeaseState
	// Unbound says that every producer reports and none has a binding of the worker.
	Unbound bool
	// Work is the sidecar's own answer; nil where it was not asked or did not answer.
	Work *Work

	pod *corev1.Pod
}

// Work is what a worker holds.
type Work struct {
	// InFlight counts the jobs that it has not settled.
	InFlight int
	Idle     time.Duration
	Cordoned bool
	Draining bool
	Drained  bool
}

// live says whether the worker counts.
func (w Worker) live() bool { return !w.Terminating && !w.Terminal && !w.Draining }

// leaving says whether the worker finishes its jobs before it goes.
func (w Worker) leaving() bool { return !w.Terminating && !w.Terminal && w.Draining }

// surelyIdle says whether it is certain that the worker holds no job.
func (w Worker) surelyIdle() bool { return !w.Started || w.Work != nil && w.Work.InFlight == 0 }

// outdated says whether a rollout has to replace the worker.
func (s Snapshot) outdated(w Worker) bool {
	return w.Revision != s.Revision || s.RollRuntime && w.RuntimeRevision != s.RuntimeRevision
}

// rolling says whether a rollout goes on.
func (s Snapshot) rolling() bool {
	if s.Paused || s.Deleting {
		return false
	}
	for _, w := range s.Workers {
		if w.live() && s.outdated(w) {
			return true
		}
	}
	return false
}

// wanting says whether workers have to be made, so that it matters when none can be.
func (s Snapshot) wanting() bool {
	return count(s.Workers, Worker.live) < s.desired() || s.rolling()
}

// most is how many workers there can be until the next plan, those that leave included.
func (s Snapshot) most() int {
	return max(s.desired()+s.MaxSurge, len(s.Workers))
}

// desired is how many workers to keep.
func (s Snapshot) desired() int {
	if s.Deleting {
		return 0
	}
	return s.Desired
}
