package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// absentEvery is how often namespaces that were left out are looked at.
const absentEvery = 15 * time.Second

// errArrived ends the operator, whose successor watches what can be watched now.
var errArrived = errors.New("a namespace that was left out can be watched now")

// absent are namespaces that a confined operator was told to watch and may not, as where they were deleted and their Roles with them. They
// are left out: a cache that waits for one of them would keep the operator from all others.
type absent struct {
	namespaces []string
	reader     client.Reader
	clock      clock.WithTicker
}

// leaveOut parts the namespaces into those that can be watched and the others. Where none can be, all stay: there is nothing else to do
// than to wait for them.
func leaveOut(ctx context.Context, reader client.Reader, namespaces []string, log logr.Logger) (watched, left []string, err error) {
	for _, namespace := range namespaces {
		may, err := mayWatch(ctx, reader, namespace)
		if err != nil {
			return nil, nil, err
		}
		if may {
			watched = append(watched, namespace)
		} else {
			left = append(left, namespace)
		}
	}
	if len(watched) == 0 {
		return namespaces, nil, nil
	}
	if len(left) > 0 {
		log.Error(nil, "Namespaces of --watch-namespaces are missing, or have no Role for this operator; they are left out until that is mended", "namespaces", left)
	}
	return watched, left, nil
}

func mayWatch(ctx context.Context, reader client.Reader, namespace string) (bool, error) {
	err := reader.List(ctx, &v1alpha1.WorkPullingFlowList{}, client.InNamespace(namespace), client.Limit(1))
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking into namespace %s: %w", namespace, err)
	}
	return true, nil
}

// NeedLeaderElection says no: who stands by has caches too.
func (a *absent) NeedLeaderElection() bool { return false }

// Start looks until ctx ends, and returns an error when a namespace can be watched. An API server that does not answer says nothing.
func (a *absent) Start(ctx context.Context) error {
	ticker := a.clock.NewTicker(absentEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		arrived := slices.IndexFunc(a.namespaces, func(namespace string) bool {
			may, err := mayWatch(ctx, a.reader, namespace)
			return err == nil && may
		})
		if arrived >= 0 {
			return fmt.Errorf("%w: %s; starting anew", errArrived, a.namespaces[arrived])
		}
	}
}
