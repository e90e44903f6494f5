package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// rewindEvery is how often the version of the cluster's store is looked at, rewindLimit how long that may take.
const rewindEvery, rewindLimit = 5 * time.Second, 10 * time.Second

// errRewound ends the operator, whose successor lists everything anew.
var errRewound = errors.New("the cluster was restored from a backup")

// rewind notices that the cluster's store has gone back in time, as by the restoration of a backup of etcd. A watch that goes on from a
// version that is in the future then keeps silent about every change until that version is reached, and for good about those before it: an
// operator with such caches would take what it makes for not made, and make it again.
type rewind struct {
	version func(context.Context) (string, error)
	clock   clock.WithTicker
	log     logr.Logger
}

// storeVersion asks for the version of the store. It goes past every cache, of the API server too, for it names no version that would do.
func storeVersion(direct client.Reader, namespaces []string) func(context.Context) (string, error) {
	options := []client.ListOption{client.Limit(1)}
	if len(namespaces) > 0 {
		options = append(options, client.InNamespace(namespaces[0]))
	}
	return func(ctx context.Context) (string, error) {
		var flows v1alpha1.WorkPullingFlowList
		if err := direct.List(ctx, &flows, options...); err != nil {
			return "", fmt.Errorf("reading the version of the cluster's store: %w", err)
		}
		return flows.ResourceVersion, nil
	}
}

// NeedLeaderElection says no: who stands by has caches too.
func (r *rewind) NeedLeaderElection() bool { return false }

// Start looks until ctx ends, and returns an error when the store has gone back. An API server that does not answer, or gives versions that
// nobody can compare, says nothing.
func (r *rewind) Start(ctx context.Context) error {
	ticker := r.clock.NewTicker(rewindEvery)
	defer ticker.Stop()
	newest := ""
	for {
		if now := r.look(ctx); now != "" {
			if order, err := resourceversion.CompareResourceVersion(now, newest); newest != "" && err == nil && order < 0 {
				return fmt.Errorf("%w: its version was %s and is %s; starting anew, for no watch is to be trusted", errRewound, newest, now)
			}
			newest = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look returns the version of the store, "" where that is not to be had.
func (r *rewind) look(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, rewindLimit)
	defer cancel()
	version, err := r.version(ctx)
	if err != nil {
		r.log.V(1).Info("The version of the cluster's store is not to be had", "cause", err.Error())
		return ""
	}
	return version
}
