package runtimeconfig

import (
	"time"
)

// What marks the Lease of a worker, besides v1alpha1.LabelRole and LabelPool. Nothing is believed because of it: it only says what to watch.
const (
	LabelManagedBy  = "app.kubernetes.io/managed-by"
	ManagedByWorker = "workpulling-worker"
)

// WorkerLeaseName names the Lease of a worker. It holds the pod's UID, which no other pod ever has, and an admission policy repeats it.
func WorkerLeaseName(podUID string) string { return ReservedPrefix + podUID }

// The pace of a pool that renews its Leases, whatever its size: at most 128 writes in 32 s, so that ten a second is kept in bursts, too.
const (
	leaseSteadyWorkers = 128
	leaseSteady        = 32 * time.Second
	// leaseMissed is how many renewals may be missed before a Lease has expired.
	leaseMissed = 4
)

// LeaseInterval is how often each of so many workers renews its Lease. It doubles with the pool, so that an autoscaler that moves a pool by
// a few workers does not move the pace, and a pool of any size writes four times a second at most on average.
func LeaseInterval(workers int) time.Duration {
	interval := leaseSteady
	for limit := leaseSteadyWorkers; limit < workers; limit *= 2 {
		interval *= 2
	}
	return interval
}

// LeaseDuration is how long a Lease that is renewed at an interval is believed in.
func LeaseDuration(interval time.Duration) time.Duration { return leaseMissed * interval }
